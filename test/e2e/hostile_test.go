package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A hostile row is one that an application should not write, by the expressions of its columns, and what its dead letter has to say.
type hostileRow struct {
	id, typ, group, key, tenant, headers, payload, why string
}

func hostileRows() map[string]hostileRow {
	const g, small = "'order:1'", "'x'"
	long := func(n int) string { return fmt.Sprintf("repeat('x', %d)", n) }
	headers := "(SELECT jsonb_object_agg('h' || i, i) FROM generate_series(1, %d) AS i)"
	large := "convert_to(repeat('p', 3000000), 'UTF8')"
	return map[string]hostileRow{
		"large-group-in-a-large-row": {group: long(70_000), payload: large, why: "more than 65536 bytes"},
		"large-group":                {group: "repeat('y', 70000)", payload: small, why: "more than 65536 bytes"},
		"large-row":                  {group: "'order:large'", payload: large, why: "max_message"},
		"long-id":                    {id: "repeat('i', 2000)", group: "'order:2'", payload: small, why: "at most 1024"},
		"long-type":                  {typ: long(1_000_000), group: "'order:3'", payload: small, why: "column type"},
		"long-key":                   {key: long(1_000_000), group: "'order:4'", payload: small, why: "column key"},
		"long-tenant":                {tenant: long(1025), group: "'order:5'", payload: small, why: "column tenant"},
		"many-headers":               {headers: fmt.Sprintf(headers, 101), group: "'order:6'", payload: small, why: "more than 100 headers"},
		"more-headers":               {headers: fmt.Sprintf(headers, 50_000), group: "'order:7'", payload: small, why: "more than 100 headers"},
	}
}

// TestHostileRows: rows beyond all bounds hold up their groups at most, while others are delivered; and so it is after the relay was killed.
func TestHostileRows(t *testing.T) {
	t.Parallel()
	b := NewBed(t, Options{Top: []string{"max_message: 2MiB"}, Source: []string{"messages: tailbox"}, Sinks: []string{"out: {kind: file, path: lines}"},
		Schema: `CREATE TABLE events (id text PRIMARY KEY, type text, topic text, message_group text, key text, tenant text, headers jsonb, payload bytea,
			status text NOT NULL DEFAULT 'pending', attempts int, last_error text, delivered_at timestamptz)`,
		Tables: "\n    - {name: public.events, shape: tailbox}\n"})
	b.MustCommand("init")
	lines := filepath.Join(b.Dir, "lines")
	good := 0
	write := func(round string) {
		t.Helper()
		or := func(expression, other string) string {
			if expression == "" {
				return other
			}
			return expression
		}
		for name, h := range hostileRows() {
			b.Exec(fmt.Sprintf("INSERT INTO events (id, type, message_group, key, tenant, headers, payload) VALUES (%[1]s || '-%[2]s', %[3]s, '%[2]s-' || %[4]s, %[5]s, %[6]s, %[7]s, %[8]s)",
				or(h.id, "'"+name+"'"), round, or(h.typ, "'T'"), h.group, or(h.key, "NULL"), or(h.tenant, "NULL"), or(h.headers, "NULL"), h.payload))
			b.Exec("INSERT INTO events (id, type, message_group, payload) VALUES ($1, 'T', 'good', 'x'), ($2, 'T', repeat('long group ', 5000), 'x')",
				fmt.Sprintf("good-%d", good), fmt.Sprintf("good-%d", good+1))
			good += 2
		}
		b.Exec("SELECT pg_logical_emit_message(true, 'tailbox', '{\"type\": \"T\", \"id\": \"emitted-' || $1::text || '\", \"payload_text\": \"' || repeat('x', 3000000) || '\"}')", round)
	}
	delivered := func() {
		t.Helper()
		b.Eventually(time.Minute, func() string {
			text, _ := os.ReadFile(lines)
			for n := range good {
				if !strings.Contains(string(text), fmt.Sprintf(`"good-%d"`, n)) {
					return fmt.Sprintf("message good-%d was not delivered", n)
				}
			}
			return ""
		})
	}
	dead := func(rounds int) {
		t.Helper()
		want := rounds * (len(hostileRows()) + 1)
		b.Eventually(time.Minute, func() string {
			if n := Ask[int](b, "SELECT count(*) FROM tailbox_parked WHERE state = 'dead'"); n != want {
				return fmt.Sprintf("%d dead letters, want %d", n, want)
			}
			return ""
		})
		for name, h := range hostileRows() {
			if n := Ask[int](b, "SELECT count(*) FROM tailbox_parked WHERE state = 'dead' AND length(last_error) < 1000 AND strpos(last_error, $1) > 0", h.why); n < rounds {
				t.Errorf("%s: %d dead letters say %q, want %d or more", name, n, h.why, rounds)
			}
		}
	}
	relay := b.Start(nil)
	write("a")
	delivered()
	dead(1)
	write("b")
	relay.Kill()
	relay = b.Start(nil)
	delivered()
	dead(2)
	b.MustCommand("dead", "edit", "long-type-a", "--type", "T", "--payload", "x", "--new-id", "edited", "--why", "too long")
	b.Eventually(time.Minute, func() string {
		if text, _ := os.ReadFile(lines); !strings.Contains(string(text), `"edited"`) {
			return "the edited message was not delivered"
		}
		return ""
	})
	relay.Stop()
	if n := Ask[int](b, "SELECT count(*) FROM events WHERE left(id, 5) <> 'good-' AND status <> 'delivered'"); n != 2*len(hostileRows())-1 {
		t.Errorf("%d rows of dead letters are there, want %d", n, 2*len(hostileRows())-1)
	}
	if state, err := os.Stat(b.LogFile); err != nil || state.Size() > 64<<10 {
		t.Errorf("the log has %d bytes, %v", state.Size(), err)
	}
	if text := b.MustCommand("dead", "list"); len(text) > 64<<10 {
		t.Errorf("tailbox dead list has %d bytes", len(text))
	}
}
