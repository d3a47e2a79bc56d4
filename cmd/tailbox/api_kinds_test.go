package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/store/view"
	"github.com/tailbox/tailbox/test/servers"
)

// The API over MySQL, MariaDB and MongoDB: pages, an edit that is too large for a list, and the audit.
func TestAPIOfKinds(t *testing.T) {
	t.Parallel()
	const postgres = `source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 0s}`
	for _, kind := range append(servers.MySQLKinds(), "mongodb") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			source := fmt.Sprintf(`source: {kind: %s, url: "${DATABASE_URL}", reconcile: 0s, tables: [{shape: tailbox}]}`, kind)
			env := map[string]string{}
			if kind == "mongodb" {
				source = strings.Replace(source, ", reconcile", `, schema: "${DATABASE}", reconcile`, 1)
				server := servers.SharedMongo(t)
				env["DATABASE_URL"], env["DATABASE"] = server.URL(), server.NewDatabase(t)
			} else {
				server := servers.SharedMySQL(t, kind)
				env["DATABASE_URL"] = server.SocketURL(server.NewDatabase(t))
			}
			e := &endpoint{}
			server := httptest.NewServer(e)
			t.Cleanup(server.Close)
			env["API_URL"] = server.URL
			text := strings.Replace(apiConfig, postgres, source, 1)
			r := &rig{t: t, file: write(t, "tailbox.yaml", text), env: env}
			a := newAPIRigOn(t, r, text)
			a.e = e
			a.must("init")
			a.start()
			testAPIOf(t, a)
		})
	}
}

func testAPIOf(t *testing.T, a *apiRig) {
	var bad string
	for i := range 3 {
		bad = a.send("a", fmt.Sprintf("a:%d", i), `{"x": "bad"}`)
	}
	until(t, "three dead letters", func() bool {
		return len(a.ok("viewer", "GET", "/deliveries", nil).body["deliveries"].([]any)) == 3
	})
	a.pages(3)
	a.newestFirst(3)
	a.summarized(3)
	a.groupPages()
	for query, want := range map[string]int{"q=a%3A1": 1, "q=a%3A": 3, "q=A%3A": 0, "q=" + bad[4:]: 1, "q=%25": 0, "topic=*": 3, "topic=x*": 0, "tenant=%5C": 3, "tenant=x": 0, "q=a&type=b": 0} {
		for _, order := range []string{"position", "newest"} {
			got := a.ok("viewer", "GET", "/deliveries?order="+order+"&"+query, nil)
			if list := got.body["deliveries"].([]any); len(list) != want {
				t.Errorf("order %s, %s: got %d deliveries, want %d: %s", order, query, len(list), want, got.text)
			}
		}
	}
	for query, want := range map[string]string{"?by=type": "-/a/- 3", "?by=class,type,sink": "permanent/a/api 3", "?by=type,sink&state=dead&state=waiting": "-/a/api 3"} {
		if got, whole := a.summary("viewer", query); strings.Join(got, " ") != want {
			t.Errorf("failures %s: %s", query, whole.text)
		}
	}
	if got, whole := a.summary("viewer", "?state=waiting"); len(got) > 0 {
		t.Errorf("failures of what waits: %s", whole.text)
	}
	if got := a.ok("auditor", "GET", "/deliveries/"+bad, nil); !strings.Contains(got.text, `"payload":"{\"x\": \"bad\"}"`) || !strings.Contains(got.text, "400 Bad Request") {
		t.Errorf("a message: %s", got.text)
	}
	large := `{"x": "` + strings.Repeat("y", 100<<10) + `"}`
	edited := a.done(a.ok("operator", "POST", "/deliveries:edit", map[string]any{"id": bad, "payload": large, "why": "TICKET-7"}))
	if edited["by"] != "olga" || edited["changed"] != 1.0 || edited["why"] != "TICKET-7" || edited["new_id"] == nil || len(fmt.Sprint(edited["selection"])) < 100<<10 {
		t.Errorf("edit: %.500s", fmt.Sprint(edited))
	}
	a.done(a.ok("admin", "POST", "/groups:hold", map[string]any{"groups": []string{"h:1"}}))
	list := a.ok("auditor", "GET", "/requests", nil)
	if len(list.text) > 10<<10 || !strings.Contains(list.text, "ask for this request alone") || strings.Index(list.text, `"verb":"hold","by":"ada"`) > strings.Index(list.text, `"verb":"edit","by":"olga"`) {
		t.Errorf("requests: %.2000s", list.text)
	}
	first := a.ok("viewer", "GET", "/requests?limit=1", nil)
	if second := a.ok("viewer", "GET", "/requests?limit=1&cursor="+first.body["next"].(string), nil); !strings.Contains(second.text, `"verb":"edit"`) || strings.Contains(second.text, "yyyy") {
		t.Errorf("the second page of requests: %.500s", second.text)
	}
	until(t, "the edited message", func() bool { return a.e.got() == "a" })
	a.e.forgive()
	if replayed := a.done(a.ok("operator", "POST", "/deliveries:replay", map[string]any{"all": true})); replayed["changed"] != 2.0 {
		t.Errorf("replay: %v", replayed)
	}
	until(t, "all", func() bool { return a.e.got() == "a a a" })
	if got := a.call("viewer", "GET", "/deliveries?group=%00", nil); got.status != 422 {
		t.Errorf("a group with NUL: %+v", got)
	}
	a.writes()
	a.anyText()
	a.exactTypes()
	a.ok("viewer", "GET", "/source", nil)
	a.ok("viewer", "GET", "/pipeline", nil)
}

// groupPages: three groups wait, one of them is held, and so is one without deliveries. Page by page, each comes once.
func (a *apiRig) groupPages() {
	a.t.Helper()
	for _, group := range []string{"a:2", "z:empty"} {
		a.done(a.ok("operator", "POST", "/groups:hold", map[string]any{"groups": []string{group}}))
	}
	for limit := 1; limit <= 4; limit++ {
		var got []string
		path := fmt.Sprintf("/groups?limit=%d", limit)
		for next := ""; ; {
			page := a.ok("viewer", "GET", path+next, nil)
			for _, one := range page.body["groups"].([]any) {
				g := one.(map[string]any)
				got = append(got, fmt.Sprintf("%v %v %v", g["group"], g["held"] == true, g["deliveries"]))
			}
			cursor, more := page.body["next"].(string)
			if !more {
				break
			}
			next = "&cursor=" + cursor
		}
		if text := strings.Join(got, ", "); text != "z:empty true 0, a:0 false 1, a:1 false 1, a:2 true 1" {
			a.t.Errorf("groups by %d: %s", limit, text)
		}
	}
	a.done(a.ok("operator", "POST", "/groups:resume", map[string]any{"groups": []string{"a:2", "z:empty"}}))
	for _, cursor := range []string{"x", "eyJ4IjoxfQ", cursorOf("a\x00")} {
		if got := a.call("viewer", "GET", "/groups?cursor="+cursor, nil); got.status != http.StatusUnprocessableEntity {
			a.t.Errorf("the cursor %s: %d %s", cursor, got.status, got.text)
		}
	}
}

// cursorOf is a cursor for a group, as nobody has got it.
func cursorOf(group string) string {
	text, _ := json.Marshal(map[string]string{"Sink": "api", "Group": group})
	return base64.RawURLEncoding.EncodeToString(text)
}

// anyText filters by texts that no database expects: each is an answer, or is refused with the reason.
func (a *apiRig) anyText() {
	a.t.Helper()
	for _, order := range []string{"position", "newest"} {
		for _, name := range []string{"sink", "group", "id", "type", "topic", "tenant", "q", "reason", "table"} {
			for _, text := range []string{"é", "😀", "a\u0301", "'\"\\%_|[", "*é?", "\u202e", strings.Repeat("é", 2000)} {
				path := "/deliveries?" + url.Values{"order": {order}, name: {text}}.Encode()
				if got := a.call("auditor", "GET", path, nil); got.status != http.StatusOK && got.status != http.StatusUnprocessableEntity {
					a.t.Errorf("%s: %d %s", path, got.status, got.text)
				}
			}
			for _, text := range []string{"a\x00", "\xff"} {
				path := "/deliveries?" + url.Values{"order": {order}, name: {text}}.Encode()
				if got := a.call("auditor", "GET", path, nil); got.status != http.StatusUnprocessableEntity {
					a.t.Errorf("%s: %d %s", path, got.status, got.text)
				}
			}
		}
	}
	for _, path := range []string{"/deliveries?id=", "/deliveries?group=&group=a:1", "/deliveries?unrouted", "/deliveries?a=%zz", "/groups?group="} {
		if got := a.call("auditor", "GET", path, nil); got.status != http.StatusUnprocessableEntity {
			a.t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	for _, path := range []string{"/groups?group=%F0%9F%98%80&sink=x", "/deliveries?state=waiting&sink=x&type=%C3%A9*"} {
		a.ok("auditor", "GET", path, nil)
	}
	for _, path := range []string{"/groups?sink=%C3%A9", "/deliveries?sink=%C3%A9", "/deliveries/x?sink=%C3%A9"} {
		if got := a.call("auditor", "GET", path, nil); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, "no sink can have this name") {
			a.t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	for _, path := range []string{"/deliveries/%C3%A9", "/deliveries/%F0%9F%98%80?sink=x&table=%C3%A9", "/delivery?id=..", "/delivery?id=%2F"} {
		if got := a.call("auditor", "GET", path, nil); got.status != http.StatusNotFound {
			a.t.Errorf("%s: %d %s", path, got.status, got.text)
		}
	}
	for _, verb := range []string{"replay", "drop"} {
		if got := a.call("operator", "POST", "/deliveries:"+verb, map[string]any{"sink": "é", "why": "test"}); got.status != http.StatusUnprocessableEntity {
			a.t.Errorf("%s at a sink that cannot be: %d %s", verb, got.status, got.text)
		}
		got := a.call("operator", "POST", "/deliveries:"+verb, map[string]any{"sink": "x", "type": "😀*", "reason": "é", "groups": []string{"é"}, "dry_run": true})
		if got.status != http.StatusOK {
			a.t.Errorf("%s: %d %s", verb, got.status, got.text)
		}
	}
}

// exactTypes: the pattern that the page of failures links to finds the deliveries of its group, and no others.
func (a *apiRig) exactTypes() {
	a.t.Helper()
	long := strings.Repeat("é", 200)
	types := []string{"a*", "ab", `a\b`, "a?c", "abc", "A*", long, "%", "_"}
	a.e.refuse()
	for i, kind := range types {
		a.send(kind, fmt.Sprintf("t:%d", i), `{"x": "bad"}`)
	}
	until(a.t, "dead letters of each type", func() bool {
		return len(a.ok("viewer", "GET", "/deliveries", nil).body["deliveries"].([]any)) == len(types)
	})
	list := func(pattern, order string) (found []string) {
		for _, d := range a.ok("viewer", "GET", "/deliveries?"+url.Values{"type": {pattern}, "order": {order}}.Encode(), nil).body["deliveries"].([]any) {
			found = append(found, d.(map[string]any)["type"].(string))
		}
		return found
	}
	until(a.t, "a summary of all of them", func() bool { // what was counted may be 10 s old
		return len(a.ok("viewer", "GET", "/deliveries/summary?by=type", nil).body["failures"].([]any)) == len(types)
	})
	for _, f := range a.ok("viewer", "GET", "/deliveries/summary?by=type", nil).body["failures"].([]any) {
		kind := f.(map[string]any)["type"].(string)
		pattern := view.TypeOf(&view.Failure{Type: &kind})
		for _, order := range []string{"position", "newest"} {
			if got := list(pattern, order); len(got) != 1 || !strings.HasPrefix(got[0], kind) {
				a.t.Errorf("%s: pattern %q of type %q finds %q", order, pattern, kind, got)
			}
		}
	}
	for pattern, want := range map[string]int{"a*": 5, `\`: 0, `a\*`: 1, "%": 1, "é*": 1, "a?": 2, `a\\b`: 1} {
		if got := list(pattern, "position"); len(got) != want {
			a.t.Errorf("pattern %q finds %q", pattern, got)
		}
	}
	a.e.forgive()
	if replayed := a.done(a.ok("operator", "POST", "/deliveries:replay", map[string]any{"type": `a\*`})); replayed["changed"] != 1.0 {
		a.t.Errorf("replay of one type: %v", replayed)
	}
	a.done(a.ok("operator", "POST", "/deliveries:replay", map[string]any{"all": true}))
}
