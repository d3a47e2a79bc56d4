package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/test/servers"
)

const apiConfig = `
pipeline: shop
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}
sinks: {api: {kind: http, url: "${API_URL}", format: single}}
retry: {attempts: 1}
admin:
  listen: "${ADMIN}"
  hosts: [relay.example]
  send: true
  tokens:
    - {name: vera, role: viewer, token_file: viewer}
    - {name: audrey, role: auditor, token_file: auditor}
    - {name: olga, role: operator, token_file: operator}
    - {name: ada, role: admin, token_file: admin}
`

// An apiRig is a relay with its API.
type apiRig struct {
	*rig
	e    *endpoint
	stop func() result
}

func newAPIRig(t testing.TB) *apiRig {
	t.Helper()
	return newAPIRigWith(t, apiConfig)
}

// newAPIRigWith is newAPIRig with another configuration.
func newAPIRigWith(t testing.TB, text string) *apiRig {
	t.Helper()
	r, e := newEndpointRig(t)
	a := newAPIRigOn(t, r, text)
	a.e = e
	a.start()
	return a
}

// newAPIRigOn gives a rig a configuration with an API, and does not start it.
func newAPIRigOn(t testing.TB, r *rig, text string) *apiRig {
	t.Helper()
	writeFile(t, r.file, text)
	r.env["ADMIN"] = servers.FreeAddr(t)
	for _, role := range config.Roles() {
		writeFile(t, filepath.Join(filepath.Dir(r.file), role), tokenOf(role)+"\n")
	}
	return &apiRig{rig: r}
}

// start starts the relay, and waits until its API answers.
func (a *apiRig) start() {
	a.t.Helper()
	a.stop = a.relay()
	until(a.t, "the API", func() bool {
		resp, err := http.Get("http://" + a.env["ADMIN"] + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
}

// tokenOf is the token of a role; "" has none.
func tokenOf(role string) string {
	if role == "" {
		return ""
	}
	return "the-token-of-the-" + role
}

// An answer is what the API said.
type answer struct {
	status int
	kind   string
	text   string
	body   map[string]any
}

// call calls the API in a role.
func (a *apiRig) call(role, method, path string, body any) answer {
	a.t.Helper()
	return a.callAs(role, method, path, body, func(*http.Request) {})
}

func (a *apiRig) callAs(role, method, path string, body any, change func(*http.Request)) answer {
	a.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			a.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(a.t.Context(), method, "http://"+a.env["ADMIN"]+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		a.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if role != "" {
		req.Header.Set("Authorization", "Bearer "+tokenOf(role))
	}
	change(req)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	out := answer{status: resp.StatusCode, kind: resp.Header.Get("Content-Type"), text: string(got)}
	_ = json.Unmarshal(got, &out.body) // what is no object has no body
	return out
}

// ok calls the API and wants an answer with a status below 300.
func (a *apiRig) ok(role, method, path string, body any) answer {
	a.t.Helper()
	got := a.call(role, method, path, body)
	if got.status >= 300 {
		a.t.Fatalf("%s %s as %s: %d %s", method, path, role, got.status, got.text)
	}
	return got
}

// done waits until a request is carried out, and returns it as the audit shows it.
func (a *apiRig) done(request answer) map[string]any {
	a.t.Helper()
	path := fmt.Sprintf("/requests/%v", request.body["request"])
	until(a.t, "request "+path, func() bool { return a.ok("auditor", "GET", path, nil).body["done_at"] != nil })
	return a.ok("auditor", "GET", path, nil).body
}

// From a dead letter to its delivery, with nothing but tokens: each verb, and whom the audit names.
func TestAPI(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	bad := a.send("a1", "a:1", `{"x": "bad"}`)
	a.send("a2", "a:1", `{}`)
	other := a.send("b1", "b:1/x", `{"x": "bad", "name": "<script>alert(1)</script>"}`)
	until(t, "two dead letters and one that waits", func() bool {
		states := a.parkedStates()
		return states["dead"] == 2 && states["waiting"] == 1
	})

	// A viewer sees what is stuck and why, by its class, and nothing that anybody wrote.
	list := a.ok("viewer", "GET", "/deliveries?state=dead&state=waiting", nil)
	if n := len(list.body["deliveries"].([]any)); n != 3 || strings.Contains(list.text, "last_error") || !strings.Contains(list.text, `"error_class":"permanent"`) {
		t.Errorf("deliveries for a viewer: %s", list.text)
	}
	if got := a.call("viewer", "GET", "/deliveries/"+bad, nil); got.status != http.StatusForbidden {
		t.Errorf("a message for a viewer: %+v", got)
	}
	if got := a.call("viewer", "GET", "/deliveries?reason=*400*", nil); got.status != http.StatusForbidden {
		t.Errorf("a viewer guesses at errors: %+v", got)
	}
	message := a.ok("auditor", "GET", "/deliveries/"+other, nil)
	one := message.body["deliveries"].([]any)[0].(map[string]any)
	if one["payload"] != `{"x": "bad", "name": "<script>alert(1)</script>"}` || one["last_error"] == nil || message.kind != "application/json" {
		t.Errorf("a message for an auditor: %s %s", message.kind, message.text)
	}
	a.pages(3)

	// A dry run changes nothing.
	all := map[string]any{"all": true, "dry_run": true}
	if got := a.ok("operator", "POST", "/deliveries:replay", all); got.status != http.StatusOK || len(got.body["deliveries"].([]any)) != 2 || a.ok("viewer", "GET", "/requests", nil).text != "{\"requests\":[]}\n" {
		t.Errorf("dry run: %+v", got)
	}
	group := a.ok("viewer", "GET", "/groups?group=a:1", nil)
	if !strings.Contains(group.text, `"group":"a:1"`) || strings.Contains(group.text, "b:1/x") {
		t.Errorf("groups: %s", group.text)
	}

	// Edit, replay, hold, resume, pause, skip and drop, each in the name of its token.
	edited := a.done(a.ok("operator", "POST", "/deliveries:edit", map[string]any{"id": bad, "payload": `{}`, "headers": map[string]string{"x-fixed": "yes"}, "why": "TICKET-7"}))
	if edited["by"] != "olga" || edited["changed"] != 1.0 || edited["why"] != "TICKET-7" || edited["new_id"] == nil {
		t.Errorf("edit: %v", edited)
	}
	until(t, "the group goes on", func() bool { return a.e.got() == "a1 a2" })
	if got := a.ok("viewer", "GET", fmt.Sprintf("/requests/%v", edited["id"]), nil); strings.Contains(got.text, "x-fixed") || !strings.Contains(got.text, "TICKET-7") {
		t.Errorf("an edit for a viewer: %s", got.text)
	}
	a.done(a.ok("operator", "POST", "/groups:hold", map[string]any{"groups": []string{"c:1"}}))
	a.send("c1", "c:1", `{}`)
	until(t, "a held group", func() bool {
		return strings.Contains(a.ok("viewer", "GET", "/groups", nil).text, `"group":"c:1","held":true,"deliveries":1`)
	})
	if resumed := a.done(a.ok("admin", "POST", "/groups:resume", map[string]any{"groups": []string{"c:1"}})); resumed["by"] != "ada" {
		t.Errorf("resume: %v", resumed)
	}
	until(t, "what was held", func() bool { return a.e.got() == "a1 a2 c1" })
	a.done(a.ok("operator", "POST", "/sinks/api:pause", map[string]any{"why": "maintenance"}))
	a.send("d1", "d:1", `{}`)
	until(t, "a paused sink", func() bool {
		return strings.Contains(a.ok("viewer", "GET", "/sinks", nil).text, `"paused":true,"state":"paused"`)
	})
	a.done(a.ok("operator", "POST", "/sinks/api:resume", nil))
	until(t, "what was paused", func() bool { return a.e.got() == "a1 a2 c1 d1" })
	if skipped := a.done(a.ok("operator", "POST", "/groups:skip", map[string]any{"groups": []string{"b:1/x"}})); skipped["changed"] != 1.0 {
		t.Errorf("skip: %v", skipped)
	}
	if got := a.call("operator", "POST", "/deliveries:drop", map[string]any{"ids": []string{other}}); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, "why is missing") {
		t.Errorf("drop without why: %+v", got)
	}
	a.done(a.ok("operator", "POST", "/deliveries:drop", map[string]any{"ids": []string{other}, "why": "test"}))
	if states := a.parkedStates(); len(states) != 0 {
		t.Errorf("left: %v", states)
	}
	until(t, "the history of 4 deliveries and 2 dead letters", func() bool {
		sums := map[string]float64{}
		for _, p := range a.ok("viewer", "GET", "/stats?minutes=60", nil).body["points"].([]any) {
			for name, n := range p.(map[string]any) {
				if n, ok := n.(float64); ok {
					sums[name] += n
				}
			}
		}
		return sums["received"] == 5 && sums["delivered"] == 4 && sums["failed"] >= 2 && sums["dead"] == 2
	})
	if got := a.ok("auditor", "GET", "/config", nil).body["yaml"]; got != a.must("config", "show") {
		t.Errorf("the API's configuration and the command line's differ:\n%s", got)
	}
	a.writes()
	a.anyText()
	a.exactTypes()
	a.withoutTheDatabase()
}

// pages reads the list one by one, and finds each once.
func (a *apiRig) pages(want int) {
	a.t.Helper()
	seen := map[string]bool{}
	cursor := ""
	for range 2*want + 2 {
		got := a.ok("viewer", "GET", "/deliveries?state=dead&state=waiting&limit=1"+cursor, nil)
		for _, d := range got.body["deliveries"].([]any) {
			seen[d.(map[string]any)["id"].(string)] = true
		}
		next, more := got.body["next"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	if len(seen) != want {
		a.t.Errorf("page by page: %v, want %d", seen, want)
	}
	if got := a.call("viewer", "GET", "/deliveries?cursor=x", nil); got.status != http.StatusUnprocessableEntity {
		a.t.Errorf("a cursor of nobody's: %+v", got)
	}
}

// withoutTheDatabase: what the database does not answer is a problem that names no secret, and not the end of the API. The relay goes on with the sessions
// that it has.
func (a *apiRig) withoutTheDatabase() {
	a.t.Helper()
	a.sql(`UPDATE pg_database SET datallowconn = false WHERE datname = current_database()`)
	var got answer
	until(a.t, "an answer without the database: a session that is kept still has it for some seconds", func() bool {
		got = a.call("viewer", "GET", "/deliveries", nil)
		return got.status != http.StatusOK
	})
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.text, "not currently accepting connections") {
		a.t.Errorf("without the database: %+v", got)
	}
	a.sql(`UPDATE pg_database SET datallowconn = true WHERE datname = current_database()`)
	a.ok("viewer", "GET", "/deliveries", nil)
}

// inputs are requests that each operation takes. An operation that is not here fails the test.
func inputs() map[string]struct {
	path string
	body any
} {
	type input = struct {
		path string
		body any
	}
	one := map[string]any{"ids": []string{"none"}, "why": "test"}
	groups := map[string]any{"groups": []string{"none"}, "why": "test"}
	return map[string]input{
		"get-pipeline": {path: "/pipeline"}, "get-source": {path: "/source?check=true"}, "get-stats": {path: "/stats?minutes=5"}, "tail-deliveries": {path: "/tail?seconds=1"},
		"get-config": {path: "/config"}, "summarize-deliveries": {path: "/deliveries/summary"},
		"list-deliveries": {path: "/deliveries?state=dead&limit=2"}, "get-delivery": {path: "/deliveries/none"}, "find-delivery": {path: "/delivery?id=none"},
		"replay-deliveries": {"/deliveries:replay", one}, "drop-deliveries": {"/deliveries:drop", one},
		"edit-delivery": {"/deliveries:edit", map[string]any{"id": "none", "type": "x"}},
		"write-message": {"/messages", map[string]any{"type": "written", "group": "w:1", "payload": "{}"}},
		"list-requests": {path: "/requests"}, "get-request": {path: "/requests/1"},
		"list-groups": {path: "/groups"}, "hold-groups": {"/groups:hold", groups}, "resume-groups": {"/groups:resume", groups},
		"skip-groups": {"/groups:skip", groups}, "replay-groups": {"/groups:replay", groups},
		"reload-config": {path: "/config:reload"},
		"list-sinks":    {path: "/sinks"}, "pause-sink": {path: "/sinks/api:pause"}, "resume-sink": {path: "/sinks/api:resume"},
	}
}

// Each operation of the OpenAPI document as each role, and without a token: answers match the document, and what is forbidden changes nothing.
func TestAPIByItsDocument(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	a.send("a1", "a:1", `{"x": "bad"}`)
	until(t, "a dead letter", func() bool { return a.parkedStates()["dead"] == 1 })
	text := a.ok("", "GET", "/openapi.json", nil)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text.text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	if version := text.body["openapi"]; version != "3.1.0" {
		t.Errorf("OpenAPI %v", version)
	}
	known, called := inputs(), 0
	for path, operations := range text.body["paths"].(map[string]any) {
		for method, op := range operations.(map[string]any) {
			op := op.(map[string]any)
			id := op["operationId"].(string)
			in, ok := known[id]
			if !ok {
				t.Errorf("operation %s is not tested", id)
				continue
			}
			needed := slices.Index(config.Roles(), op["tags"].([]any)[0].(string))
			for i, role := range append([]string{""}, config.Roles()...) {
				before := a.count()
				got := a.call(role, strings.ToUpper(method), in.path, in.body)
				called++
				what := fmt.Sprintf("%s as %q: %d %s", id, role, got.status, got.text)
				switch {
				case role == "" && got.status != http.StatusUnauthorized, role != "" && i-1 < needed && got.status != http.StatusForbidden,
					i-1 >= needed && (got.status == http.StatusUnauthorized || got.status == http.StatusForbidden || got.status >= 500):
					t.Error(what)
				case got.status >= 400 && a.count() != before:
					t.Errorf("%s: it was refused, and wrote a request", what)
				}
				if response := op["responses"].(map[string]any)[fmt.Sprint(got.status)]; response == nil {
					t.Errorf("%s: the document has no such answer", what)
				}
				at := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%d/content/%s/schema", escape(path), method, got.status, escape(got.kind))
				schema, err := compiler.Compile(at)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				if id == "tail-deliveries" && got.status == http.StatusOK {
					continue // TestAPITail reads it
				}
				value, err := jsonschema.UnmarshalJSON(strings.NewReader(got.text))
				if err == nil {
					err = schema.Validate(value)
				}
				if err != nil {
					t.Errorf("%s: it does not match the document: %v", what, err)
				}
			}
		}
	}
	if called != 5*len(known) {
		t.Errorf("%d calls of %d operations", called, len(known))
	}
	a.refusals()
}

// escape makes a step of a JSON pointer in an address.
func escape(step string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(step)
}

// count is how many requests were ever written.
func (a *apiRig) count() (n int) {
	a.t.Helper()
	if err := a.conn.QueryRow(a.t.Context(), "SELECT count(*) FROM tailbox_request").Scan(&n); err != nil {
		a.t.Fatal(err)
	}
	return n
}

// refusals: what is wrong is said, and changes nothing.
func (a *apiRig) refusals() {
	a.t.Helper()
	before := a.count()
	for _, c := range []struct {
		role, method, path string
		body               any
		status             int
		says               string
	}{
		{"admin", "GET", "/deliveries?sinc=api", nil, 422, "sinc"},
		{"admin", "GET", "/deliveries?state=lost", nil, 422, "state"},
		{"viewer", "GET", "/deliveries?class=post+to+http", nil, 422, "class"},
		{"admin", "GET", "/deliveries?limit=501", nil, 422, "500"},
		{"viewer", "GET", "/deliveries?order=newest&cursor=" + base64.RawURLEncoding.EncodeToString([]byte(`{"at":"2026-01-01T00:00:00Z","id":"\u0000"}`)), nil, 422, "cursor"},
		{"admin", "GET", "/requests/999999", nil, 404, "no request"},
		{"admin", "GET", "/nowhere", nil, 404, "openapi.json"},
		{"admin", "POST", "/sinks/other:pause", nil, 404, "no sink"},
		{"admin", "POST", "/sinks/api:dance", nil, 404, "no operation"},
		{"admin", "POST", "/deliveries:replay", map[string]any{}, 422, "nothing is selected"},
		{"admin", "POST", "/deliveries:replay", map[string]any{"id": "x"}, 422, "id"},
		{"admin", "POST", "/deliveries:edit", map[string]any{"id": "x"}, 422, "nothing is changed"},
		{"admin", "POST", "/groups:hold", map[string]any{"groups": []string{}}, 422, "groups"},
		{"admin", "PUT", "/pipeline", nil, 404, "no operation"},
	} {
		if got := a.call(c.role, c.method, c.path, c.body); got.status != c.status || !strings.Contains(got.text, c.says) {
			a.t.Errorf("%s %s: %+v, want %d %s", c.method, c.path, got, c.status, c.says)
		}
	}
	for host, status := range map[string]int{"relay.example": 200, "RELAY.example:99": 200, "localhost": 200, "evil.example": 421, "": 200} {
		if got := a.callAs("admin", "GET", "/pipeline", nil, func(r *http.Request) { r.Host = host }); got.status != status {
			a.t.Errorf("Host %q: %+v", host, got)
		}
	}
	if got := a.callAs("", "GET", "/pipeline", nil, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+tokenOf("admin")) }); got.status != 401 {
		a.t.Errorf("a token of another scheme: %+v", got)
	}
	if a.count() != before {
		a.t.Error("what was refused has written a request")
	}
	// A token ends with its file, and another one counts at once.
	file := filepath.Join(filepath.Dir(a.file), "viewer")
	writeFile(a.t, file, "another-token-of-the-viewer")
	if got := a.call("viewer", "GET", "/pipeline", nil); got.status != 401 {
		a.t.Errorf("a token that was replaced: %+v", got)
	}
	if got := a.callAs("", "GET", "/pipeline", nil, func(r *http.Request) { r.Header.Set("Authorization", "bearer another-token-of-the-viewer") }); got.status != 200 {
		a.t.Errorf("the token that replaced it: %+v", got)
	}
	writeFile(a.t, file, "short")
	if got := a.callAs("", "GET", "/pipeline", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer short") }); got.status != 401 {
		a.t.Errorf("a token that is too short: %+v", got)
	}
}
