package outbox_test

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
)

// FuzzRow: whatever is in a draft, it is written or refused, in every kind of column.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{"", "{}", `"\ud83d\ude00"`, `"\ud83d\u0041"`, `"\\\u0000"`, "[[[", `{"a": -1e9}`, "\xff", "a:b", "0193e5a0-0000-7000-8000-000000000001"} {
		f.Add([]byte(seed), seed, seed)
	}
	var inserts []*outbox.Insert
	for _, c := range []struct {
		dialect outbox.Dialect
		types   []string
	}{
		{outbox.Postgres, []string{"text", "varchar", "bytea", "json", "jsonb", "uuid", "int2", "bool", "timestamptz", "citext"}},
		{outbox.MySQL, []string{"varchar", "blob", "json", "binary", "bigint", "datetime", "timestamp", "tinytext"}},
	} {
		for _, typ := range c.types {
			row := func(name, typ string) []string {
				return []string{name, typ, typ, "16", "", "0", "0", "0", "", "0"}
			}
			in, err := outbox.NewInsert(c.dialect, outbox.Table{Name: "t", Columns: outbox.Columns{ID: "id", Payload: "body", Headers: "heads", Group: []string{"a", "b"}}},
				[][]string{row("id", "text"), row("body", typ), row("heads", "json"), row("a", typ), row("b", typ)}, outbox.Options{NewID: outbox.NewID})
			if err != nil {
				f.Fatal(err)
			}
			inserts = append(inserts, in)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, group, header string) {
		for _, in := range inserts {
			row, err := in.Row(outbox.Draft{Payload: payload, Group: group, Headers: map[string]string{header: group}})
			if _, refused := errors.AsType[*outbox.DraftError](err); err != nil && !refused {
				t.Fatalf("%v", err)
			}
			if err != nil {
				continue
			}
			st := in.Statement([]*outbox.Row{row})
			if !utf8.ValidString(st.SQL) || row.ID == "" {
				t.Fatalf("%q, id %q", st.SQL, row.ID)
			}
			for _, arg := range st.Args {
				if text, ok := arg.(string); ok && !utf8.ValidString(text) {
					t.Fatalf("%q is not UTF-8", text)
				}
			}
		}
	})
}
