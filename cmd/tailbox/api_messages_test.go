package main

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// writes: an admin writes messages into the outbox, each once, and hears what is wrong with one.
func (a *apiRig) writes() {
	a.t.Helper()
	const id = "0f5c1a52-7e2c-4d39-9c55-3f7c1b6a9d01"
	message := map[string]any{"id": id, "type": "written", "group": "w:1", "payload": `{"by": "api"}`}
	written := a.call("admin", "POST", "/messages", message)
	if written.status != http.StatusCreated || written.body["id"] != id || !strings.HasSuffix(written.body["table"].(string), "outbox") {
		a.t.Fatalf("a message: %d %s", written.status, written.text)
	}
	if made := a.call("admin", "POST", "/messages", map[string]any{"type": "written", "group": "w:1", "payload_base64": "eyJieSI6ICJhcGkifQ=="}); made.status != http.StatusCreated ||
		len(made.body["id"].(string)) < 20 {
		a.t.Errorf("a message without an id: %d %s", made.status, made.text)
	}
	until(a.t, "both messages", func() bool { return strings.HasSuffix(a.e.got(), "written written") })
	for want, body := range map[string]map[string]any{
		"there is no table":      {"type": "written", "table": "nowhere"},
		"both set":               {"type": "written", "payload": "{}", "payload_base64": ""},
		"is no base64":           {"type": "written", "payload_base64": "!"},
		"holds NUL":              {"type": "written", "group": "a\x00b"},
		"expected required prop": {"payload": "{}"},
		"unexpected property":    {"type": "written", "speed": 9},
		"Type":                   {"type": ""},
		"bytes":                  {"type": "written", "id": strings.Repeat("i", 5000)},
	} {
		if got := a.call("admin", "POST", "/messages", body); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, want) {
			a.t.Errorf("%v: %d %.300s, want %q", body["type"], got.status, got.text, want)
		}
	}
	if got := a.call("operator", "POST", "/messages", message); got.status != http.StatusForbidden {
		a.t.Errorf("an operator writes: %d %s", got.status, got.text)
	}
}

// A row that is still there is not written twice.
func TestWriteMessageTwice(t *testing.T) {
	t.Parallel()
	a := newAPIRigWith(t, strings.Replace(apiConfig, "reconcile: 0s", "reconcile: 0s, tables: [{name: outbox, shape: debezium, on_delivered: keep}]", 1))
	message := map[string]any{"id": "0f5c1a52-7e2c-4d39-9c55-3f7c1b6a9d01", "type": "written", "topic": "order", "key": "1", "payload": "{}"}
	for i, want := range []int{http.StatusCreated, http.StatusConflict, http.StatusConflict} {
		if got := a.call("admin", "POST", "/messages", message); got.status != want {
			t.Errorf("call %d: %d %s", i, got.status, got.text)
		}
	}
	until(t, "the message", func() bool { return a.e.got() == "written" })
}

// Without admin.send there is no such operation, and check does not ask for INSERT; with it check does.
func TestSendIsOff(t *testing.T) {
	t.Parallel()
	a := newAPIRigWith(t, strings.Replace(apiConfig, "  send: true\n", "", 1))
	if got := a.call("admin", "POST", "/messages", map[string]any{"type": "written"}); got.status != http.StatusNotFound {
		t.Errorf("without admin.send: %d %s", got.status, got.text)
	}
	if got := a.call("", "GET", "/openapi.json", nil); strings.Contains(got.text, "write-message") {
		t.Error("the document has the operation")
	}
	role := "relay_" + strings.TrimPrefix(a.env["SLOT"], "t_")
	a.sql("CREATE ROLE " + role + " LOGIN REPLICATION")
	t.Cleanup(func() {
		if _, err := a.conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	inserts := regexp.MustCompile(`GRANT [^;\n]*INSERT[^;\n]* ON [^;\n]*"?outbox"?`)
	if printed := a.must("init", "--print"); inserts.MatchString(printed) {
		t.Errorf("init asks for INSERT:\n%s", printed)
	}
	writeFile(t, a.file, apiConfig)
	if printed := a.must("init", "--print"); !inserts.MatchString(printed) {
		t.Errorf("init does not ask for INSERT:\n%s", printed)
	}
	a.sql("GRANT SELECT, DELETE ON outbox TO " + role)
	a.env["DATABASE_URL"] = strings.Replace(a.env["DATABASE_URL"], "postgres@", role+"@", 1)
	if got := a.command("check"); !strings.Contains(got.out, `has no INSERT on "public"."outbox"`) {
		t.Errorf("check of a role without INSERT:\n%s%s", got.out, got.err)
	}
}
