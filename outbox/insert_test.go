package outbox_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
)

// catalog describes a table of the shape tailbox as a database would.
func catalog(packet string) [][]string {
	row := func(name, typ, must, def, unique string) []string {
		return []string{name, typ, typ, "0", "", must, def, "0", unique, packet}
	}
	return [][]string{row("id", "uuid", "1", "1", "id"), row("type", "text", "1", "0", ""), row("topic", "text", "0", "0", ""), row("message_group", "text", "0", "0", ""),
		row("payload", "bytea", "1", "0", ""), row("headers", "jsonb", "0", "0", ""), row("idempotency_key", "text", "0", "0", "idempotency_key"),
		row("status", "text", "1", "1", ""), row("created_at", "bigint", "1", "0", ""), row("made_at", "int8", "0", "0", "")}
}

// TestStatement: the SQL is what it should be, and values never stand in it.
func TestStatement(t *testing.T) {
	t.Parallel()
	tab := table(t, "tailbox")
	tab.Name, tab.Columns.CreatedAt = `out"box`, "made_at"
	rows := catalog("0")
	rows[8][5] = "0"
	in, err := outbox.NewInsert(outbox.Postgres, tab, rows, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	drafts := []outbox.Draft{{Type: "a'b", Payload: []byte("x"), IdempotencyKey: "k"}, {Type: "b", Topic: "t", Payload: []byte("y")}}
	list, err := in.Rows(drafts)
	if err != nil {
		t.Fatal(err)
	}
	want := `INSERT INTO "public"."out""box" ("id", "type", "topic", "payload", "idempotency_key", "status", "made_at") VALUES ` +
		`($1, $2, DEFAULT, $3, $4, $5, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), ` +
		`($6, $7, $8, $9, DEFAULT, $10, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) ON CONFLICT DO NOTHING RETURNING "id"::text`
	if st := in.Statement(list); st.SQL != want || len(st.Args) != 10 || !st.Returns {
		t.Errorf("got  %s\nwant %s\nwith %v", st.SQL, want, st.Args)
	}
	if st := in.Statement(list[1:]); st.Returns || strings.Contains(st.SQL, "CONFLICT") {
		t.Errorf("a row that cannot conflict: %s", st.SQL)
	}
}

// TestGeneratedID: an id that the database generates is not written, whatever its type.
func TestGeneratedID(t *testing.T) {
	t.Parallel()
	rows := catalog("0")
	rows[0][7], rows[8] = "1", rows[9]
	in, err := outbox.NewInsert(outbox.Postgres, table(t, "tailbox"), rows[:9], outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := in.Rows([]outbox.Draft{{Type: "a", Payload: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if st := in.Statement(list); strings.Contains(st.SQL, `("id"`) || !st.Returns {
		t.Errorf("got %s, returns: %t", st.SQL, st.Returns)
	}
}

// TestPacket: a row that the server would refuse, and end the connection for, is refused.
func TestPacket(t *testing.T) {
	t.Parallel()
	tab := table(t, "tailbox")
	rows := catalog("20000")
	for _, r := range rows {
		r[1] = map[string]string{"uuid": "char", "bytea": "longblob", "jsonb": "json", "bigint": "timestamp"}[r[1]]
		if r[1] == "" {
			r[1] = "longtext"
		}
	}
	in, err := outbox.NewInsert(outbox.MySQL, tab, rows, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]bool{strings.Repeat("x", 14000): true, strings.Repeat("'", 14000): false, strings.Repeat("x", 20001): false} {
		_, err := in.Row(outbox.Draft{Type: "t", Payload: []byte(payload)})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "max_allowed_packet") {
			t.Errorf("%d of %.1q: %v", len(payload), payload, err)
		}
	}
	var drafts []outbox.Draft
	for range 10 {
		drafts = append(drafts, outbox.Draft{Type: "t", Payload: make([]byte, 2000)})
	}
	list, err := in.Rows(drafts)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(in.Statements(list)); got < 5 {
		t.Errorf("statements: %d, and each has at most 20000 bytes", got)
	}
}

func BenchmarkRow(b *testing.B) {
	tab, err := outbox.NewTable("tailbox", "outbox")
	if err != nil {
		b.Fatal(err)
	}
	rows := catalog("0")
	in, err := outbox.NewInsert(outbox.Postgres, tab, append(rows[:8:8], rows[9]), outbox.Options{})
	if err != nil {
		b.Fatal(err)
	}
	d := outbox.Draft{Type: "OrderPaid", Topic: "orders", Group: "order:42", Payload: make([]byte, 200)}
	b.ReportAllocs()
	for b.Loop() {
		r, err := in.Row(d)
		if err != nil {
			b.Fatal(err)
		}
		_ = in.Statement([]*outbox.Row{r})
	}
}
