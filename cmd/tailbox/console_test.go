package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// A browser is a client of the console that follows links and sends forms, as one without script does.
type browser struct {
	t    testing.TB
	base string
	http http.Client
	// origin is what forms say they come from; "" = the console.
	origin string
	// status, at and text are those of the page that is shown.
	status int
	at     *url.URL
	text   string
}

// noOrigin has a browser leave out where its forms come from.
const noOrigin = "none"

func (a *apiRig) browser() *browser {
	a.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return &browser{t: a.t, base: "http://" + a.env["ADMIN"], http: http.Client{Jar: jar}}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.send(http.MethodGet, path, nil)
}

func (b *browser) send(method, path string, form url.Values) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		switch b.origin {
		case "":
			req.Header.Set("Origin", b.base)
		case noOrigin:
		default:
			req.Header.Set("Origin", b.origin)
		}
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.status, b.at, b.text = resp.StatusCode, resp.Request.URL, string(text)
}

// login logs in with the token of a role.
func (b *browser) login(role string) {
	b.t.Helper()
	b.send(http.MethodPost, "/login", url.Values{"token": {tokenOf(role)}, "to": {"/"}})
	b.wants("What needs you", "Log out")
}

// wants looks for texts on the page that is shown.
func (b *browser) wants(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if b.status != http.StatusOK || !strings.Contains(b.text, text) {
			b.t.Errorf("%s: status %d, and no %q in\n%s", b.at, b.status, text, b.text)
		}
	}
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// form sends the form of the page whose action is a path, with further fields.
func (b *browser) form(action string, fields url.Values) {
	b.t.Helper()
	_, rest, found := strings.Cut(b.text, `action="`+action+`"`)
	if !found {
		b.t.Fatalf("%s: there is no form for %s in\n%s", b.at, action, b.text)
	}
	text, _, _ := strings.Cut(rest, "</form>")
	all := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(text, -1) {
		all.Add(m[1], strings.NewReplacer("&#34;", `"`, "&amp;", "&", "&lt;", "<", "&gt;", ">", "&#39;", "'", "&#43;", "+").Replace(m[2]))
	}
	for name, values := range fields {
		all[name] = values
	}
	b.send(http.MethodPost, action, all)
}

// carried waits on the page of a request until it is carried out.
func (b *browser) carried(texts ...string) {
	b.t.Helper()
	until(b.t, "the request", func() bool {
		b.open(b.at.Path)
		return !strings.Contains(b.text, "not carried out yet")
	})
	b.wants(texts...)
}

// From the login to a delivered dead letter, by pages alone; and what pages must not do.
func TestConsole(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	const script = `<script>alert(1)</script>`
	bad := a.send("a1", "a:1", `{"x": "bad", "name": "`+script+`"}`)
	a.send("a2", "a:1", `{}`)
	until(t, "a dead letter and one that waits", func() bool {
		states := a.parkedStates()
		return states["dead"] == 1 && states["waiting"] == 1
	})

	b := a.browser()
	b.open("/messages/" + bad + "?sink=api")
	if b.at.Path != "/login" || !strings.Contains(b.text, `name="to" value="/messages/`+bad+`?sink=api"`) {
		t.Errorf("without a login: %s\n%s", b.at, b.text)
	}
	b.send(http.MethodPost, "/login", url.Values{"token": {"nobody's"}})
	if b.status != http.StatusUnauthorized || !strings.Contains(b.text, "Nobody holds this token") {
		t.Errorf("a wrong token: %d\n%s", b.status, b.text)
	}
	b.login("operator")
	b.wants("1 dead letter at api.", "olga, operator", "Dead letters by cause", "400 Bad Request", "Delivered a minute", "Oldest undelivered")
	b.open("/failures")
	b.wants("permanent", "400 Bad Request", bad, `href="/deliveries?class=permanent&amp;sink=api&amp;type=a1"`)
	b.open("/deliveries?class=permanent&type=a1&sink=api")
	b.wants(bad, `name="reason" value="permanent"`)
	b.open("/deliveries?since=2026-01-01T00:00:00Z")
	b.wants(bad, "leave out since and until")
	b.open("/failures?by=type")
	b.wants(`href="/deliveries?type=a1"`)
	b.open("/deliveries?state=dead&state=waiting")
	b.wants(bad, "permanent", "a2")
	b.open("/messages/" + bad)
	b.wants("&lt;script&gt;alert(1)&lt;/script&gt;", "What waits in its group")
	if strings.Contains(b.text, script) {
		t.Errorf("a payload is part of the page:\n%s", b.text)
	}

	// An edit shows what it changes before it is sent.
	b.form("/do/edit", url.Values{"payload": {"{\"x\":\r\n \"good\"}"}, "type": {"a1"}, "topic": {"a1"}, "header_name": {"x-fixed"}, "header_value": {"yes"}})
	b.wants("Before", "After", "x-fixed")
	if strings.Contains(b.text, "<h2>type</h2>") {
		t.Errorf("a field that was not changed is shown as one:\n%s", b.text)
	}
	b.form("/do/edit", url.Values{"why": {"TICKET-7"}})
	b.carried("olga", "TICKET-7", "1 changed", "new id")
	until(t, "the group goes on", func() bool { return a.e.got() == "a1 a2" })

	// Replay by selection: a dry run, then the verb.
	a.send("b1", "b:1", `{"x": "bad"}`)
	until(t, "a dead letter", func() bool { return a.parkedStates()["dead"] == 1 })
	b.open("/deliveries?sink=api")
	b.form("/do/replay", nil)
	b.wants("1 delivery matches", "Cancel")
	if got := a.parkedStates(); got["dead"] != 1 {
		t.Errorf("a dry run has changed something: %v", got)
	}
	b.form("/do/replay", url.Values{"why": {"again"}})
	b.carried("1 changed")
	until(t, "dead again", func() bool { return a.parkedStates()["dead"] == 1 })
	b.open("/groups")
	b.form("/do/skip-groups", nil)
	b.carried("1 changed")
	b.open("/deliveries?sink=api")
	b.form("/do/drop", nil)
	b.form("/do/drop", url.Values{"why": {"a test"}})
	b.carried("1 changed", "a test")

	// Hold, resume, pause and resume.
	b.open("/groups")
	b.form("/do/hold-groups", url.Values{"groups": {"c:1"}})
	b.carried("1 changed")
	a.send("c1", "c:1", `{}`)
	until(t, "a held group", func() bool { b.open("/groups"); return strings.Contains(b.text, "held by an operator") })
	b.form("/do/resume-groups", nil)
	b.carried("1 changed")
	until(t, "what was held", func() bool { return a.e.got() == "a1 a2 c1" })
	b.open("/sinks")
	b.form("/do/pause-sink", nil)
	b.carried("pause")
	b.open("/")
	b.wants("Sink api is paused by an operator.")
	b.open("/sinks")
	b.form("/do/resume-sink", nil)
	b.carried("resume")
	b.open("/")
	b.wants("All is well")
	b.open("/source?check=true")
	b.wants("Check the source")
	b.open("/audit")
	b.wants("TICKET-7", "olga")
	b.open("/config")
	b.wants("Configuration", "pipeline: shop\n", "max_batch: 100\n", "url: postgres://***@")
	b.lessRoles(a)
}

// lessRoles: who may less sees less, and a form of another site is refused.
func (b *browser) lessRoles(a *apiRig) {
	b.t.Helper()
	bad := a.send("d1", "d:1", `{"x": "bad", "secret": 1}`)
	until(b.t, "a dead letter", func() bool { return a.parkedStates()["dead"] == 1 })
	before := a.count()
	viewer := a.browser()
	viewer.login("viewer")
	for _, path := range []string{"/", "/failures", "/deliveries", "/messages/" + bad, "/groups", "/sinks", "/source", "/audit", "/audit/1"} {
		viewer.open(path)
		viewer.wants("vera, viewer")
		if strings.Contains(viewer.text, "/do/") || strings.Contains(viewer.text, "secret") || strings.Contains(viewer.text, "400 Bad Request") {
			b.t.Errorf("a viewer at %s:\n%s", path, viewer.text)
		}
	}
	if viewer.open("/config"); viewer.status != http.StatusForbidden || strings.Contains(viewer.text, "postgres://") {
		b.t.Errorf("a viewer at the configuration: %d\n%s", viewer.status, viewer.text)
	}
	viewer.send(http.MethodPost, "/do/drop", url.Values{"ids": {bad}, "why": {"x"}, "confirmed": {"yes"}})
	if viewer.status != http.StatusForbidden {
		b.t.Errorf("a viewer drops: %d", viewer.status)
	}
	b.origin = "http://evil.example"
	for _, path := range []string{"/do/drop", "/login", "/logout"} {
		if b.send(http.MethodPost, path, url.Values{"ids": {bad}, "why": {"x"}, "confirmed": {"yes"}}); b.status != http.StatusForbidden {
			b.t.Errorf("%s from another site: %d", path, b.status)
		}
	}
	for _, b.origin = range []string{"null", noOrigin} {
		if b.send(http.MethodPost, "/do/drop", url.Values{"ids": {bad}, "why": {"x"}, "confirmed": {"yes"}}); b.status != http.StatusForbidden {
			b.t.Errorf("from nowhere, %s: %d", b.origin, b.status)
		}
	}
	b.origin = ""
	stranger := a.browser()
	for _, verb := range []string{"replay", "drop", "edit", "hold-groups", "resume-groups", "skip-groups", "replay-groups", "pause-sink", "resume-sink"} {
		stranger.send(http.MethodPost, "/do/"+verb, url.Values{"ids": {bad}, "id": {bad}, "groups": {"d:1"}, "sink": {"api"}, "why": {"x"}, "confirmed": {"yes"}, "payload": {"{}"}})
		if stranger.at.Path != "/login" {
			b.t.Errorf("%s without a session: %d %s", verb, stranger.status, stranger.at)
		}
	}
	if a.count() != before {
		b.t.Error("what was refused has written a request")
	}
	b.send(http.MethodPost, "/login", url.Values{"token": {tokenOf("operator")}, "to": {"//evil.example/"}})
	if b.at.Host != strings.TrimPrefix(b.base, "http://") {
		b.t.Errorf("a login leads to %s", b.at)
	}
	b.send(http.MethodPost, "/logout", nil)
	if b.open("/"); b.at.Path != "/login" {
		b.t.Errorf("after the logout: %s", b.at)
	}
	for range 12 {
		b.send(http.MethodPost, "/login", url.Values{"token": {"guess"}})
	}
	if b.status != http.StatusTooManyRequests {
		b.t.Errorf("many logins that failed: %d", b.status)
	}
}

// Whatever a row holds stays text on every page.
func TestConsoleOfHostileRows(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	const script, attribute = `<script>alert(1)</script>`, `" onmouseover="alert(1)`
	hostile := func(where string) string { return where + script + "'" + attribute }
	id := hostile("id")
	a.sql(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (gen_random_uuid(), 'a', $1, $2, jsonb_build_object('x', 'bad', 'y', $3::text))`,
		hostile("group"), hostile("type"), hostile("payload"))
	a.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, error_class, last_error)
		VALUES ('shop', '', $1, $2, '00000001-0000000000000001-00000001', $3, 'dead', true, false, $4, $5, 'unroutable', $6)`,
		hostile("table"), hostile("unrouted"), id, hostile("kind"), hostile("topic"), hostile("error"))
	until(t, "two dead letters", func() bool { return a.parkedStates()["dead"] == 2 })
	b := a.browser()
	b.login("admin")
	looks := func(what string) {
		t.Helper()
		if b.status != http.StatusOK || strings.Contains(b.text, script) || strings.Contains(b.text, attribute) {
			t.Errorf("%s: status %d, or a row's text is part of the page:\n%s", what, b.status, b.text)
		}
	}
	shown := map[string]bool{}
	for _, path := range []string{"/", "/failures", "/failures?by=type", "/failures?by=class", "/deliveries", "/deliveries?type=" + url.QueryEscape(hostile("type")),
		"/deliveries?group=" + url.QueryEscape(hostile("group")), "/groups", "/messages/" + url.PathEscape(id), "/live?group=" + url.QueryEscape(hostile("group")), "/audit", "/config", "/sinks", "/source"} {
		b.open(path)
		looks(path)
		for _, where := range []string{"group", "type", "id", "kind", "error"} {
			shown[where] = shown[where] || strings.Contains(b.text, where+"&lt;script&gt;")
		}
	}
	for where, ok := range shown {
		if !ok {
			t.Errorf("no page shows the %s, so this test sees nothing of it", where)
		}
	}
	b.open("/deliveries?sink=api")
	b.form("/do/replay", nil)
	looks("a dry run")
	b.form("/do/replay", url.Values{"why": {hostile("why")}})
	b.carried("1 changed", "why&lt;script&gt;")
	looks("a request")
	b.open("/audit")
	looks("the audit")
	b.open("/deliveries?sink=api&q=" + url.QueryEscape(hostile("q")))
	looks("a search")
	b.open("/" + url.PathEscape(hostile("page")))
	if strings.Contains(b.text, script) {
		t.Errorf("a page that is not there:\n%s", b.text)
	}
}

// A message for which no sink could be chosen has a page, and its group no verb that would reach the group at other sinks.
func TestConsoleOfUnrouted(t *testing.T) {
	t.Parallel()
	a := newAPIRig(t)
	a.sql(`INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic, error_class)
		VALUES ('shop', '', 'public.outbox', 'u:1', '00000001-0000000000000001-00000001', 'm1', 'dead', true, false, 't', 't', 'unroutable')`)
	b := a.browser()
	b.login("operator")
	b.open("/messages/m1")
	b.wants("m1", "unroutable", "Replay …")
	b.open("/groups")
	b.wants("u:1", "no sink", "Decide")
	if strings.Contains(b.text, `action="/do/skip-groups"`) || strings.Contains(b.text, `action="/do/replay-groups"`) {
		t.Errorf("a verb at no sink:\n%s", b.text)
	}
}
