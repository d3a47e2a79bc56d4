package propose

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/store/report"
)

// What bytes hold decides whether they are headers or the body of a message.
func TestBytes(t *testing.T) {
	t.Parallel()
	long := `{"trace_id": "` + strings.Repeat("x", report.SampleLength-15) + "\xc3" // cut within a character
	for name, c := range map[string]struct {
		headers, payload string
		class            report.Class // of the payload; 0: Binary
		want, never      string
	}{
		"headers":               {headers: `{"trace_id": "1"}`, payload: `{}`, want: "headers: headers  # bytea\n", never: "holds"},
		"headers that are cut":  {headers: long, payload: `{}`, want: "headers: headers  # bytea\n"},
		"no rows":               {want: "headers: headers  # bytea", never: "has no text"},
		"no rows, a question":   {want: "headers is empty in the rows that were looked at"},
		"a list":                {headers: `["a"]`, payload: `{}`, want: "hold something else in it", never: "headers: headers"},
		"half an object":        {headers: `{"a":`, payload: `{}`, want: "hold something else in it", never: "headers: headers"},
		"Java":                  {headers: "\xac\xed\x00\x05sr", payload: `{}`, want: "hold something else in it", never: "headers: headers"},
		"a body of Go":          {headers: "\xff", payload: "\x0f\xff\x81\x03", want: "payload holds bytes that are not text"},
		"a body of PHP":         {headers: "\xff", payload: "O:1:\"A\":1:{s:4:\"\x00A\x00b\";i:1;}", want: "payload holds what a program has serialized or encoded"},
		"a body beside headers": {headers: `{"a": 1}`, payload: "\xff", want: "payload: payload", never: "that are not text"},
		"a body of text":        {headers: "\xff", payload: `{"a": "é"}`, want: "payload: payload", never: "that are not text"},
		"a body that is JSON":   {headers: "\xff", payload: `{}`, class: report.JSON, want: "payload: payload", never: "that are not text"},
		"PHP in a text":         {payload: `O:36:\"Symfony\Component\Messenger\Envelope":1:{}`, class: report.Text, want: "payload holds what a program has serialized or encoded"},
		"base64 in a text":      {payload: "eyJvcmRlcklkIjogMX0=", class: report.Text, want: "payload holds what a program has serialized or encoded"},
		"a number in a text":    {payload: "4711471147114711", class: report.Text, never: "serialized"},
		"a large object":        {headers: `{}`, class: report.Other, want: `ALTER TABLE public.outbox ALTER COLUMN payload TYPE bytea USING lo_get(payload)`, never: "If a row refers to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := &report.Table{Schema: "public", Name: "outbox", Columns: []report.Column{{Name: "id", Type: "uuid", Class: report.UUID, NotNull: true}, {Name: "headers", Type: "bytea", Class: report.Binary},
				{Name: "payload", Type: "bytea", Class: report.Binary}}, Unique: [][]string{{"id"}}, Primary: true}
			if c.class != 0 || name == "a large object" {
				table.Columns[2].Class = c.class
			}
			if name == "a large object" {
				table.Columns[2].Type = "oid"
			}
			for i, text := range map[int]string{1: c.headers, 2: c.payload} {
				if text != "" {
					table.Columns[i].Look(text)
				}
			}
			if text := Of(table).YAML(); !strings.Contains(text, c.want) || c.never != "" && strings.Contains(text, c.never) {
				t.Errorf("want %q without %q:\n%s", c.want, c.never, text)
			}
		})
	}
}
