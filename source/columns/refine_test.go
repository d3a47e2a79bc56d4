package columns_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// refined is what a table with references makes of a message: type, group, key and fault.
func refined(t *testing.T, m *outbox.Message, columnTexts map[string]string, ungrouped ...string) string {
	t.Helper()
	table := outbox.Table{Name: "outbox", Schema: "public", Shape: "tailbox", Ungrouped: ungrouped}
	for _, part := range outbox.ReferenceParts() {
		text, ok := columnTexts[part]
		if !ok {
			continue
		}
		r, err := outbox.ParseReference(part, text)
		if err != nil {
			t.Fatal(err)
		}
		table.References = append(table.References, r)
	}
	columns.NewRefiner(&table).Refine(m)
	fault := "no fault"
	if m.Fault != nil {
		fault = m.Fault.Reason
	}
	return fmt.Sprintf("%s|%s|%s|%s", m.Type, m.GroupText(), m.Key, fault)
}

func TestReferences(t *testing.T) {
	t.Parallel()
	const payload = `{"a": {"b.c": 1, "b": {"c": "deep", "n": 1.50, "t": true, "no": null, "list": [1]}}, "text": "plain", "a": {"b": "second"}, "e": "\u00e9"}`
	const cannot = " of a row of public.outbox cannot be understood: "
	for _, c := range []struct {
		name, payload, headers string
		columns                map[string]string
		want                   string
	}{
		{"deep", payload, "", map[string]string{"type": "${payload.a.b.c}"}, "deep|||no fault"},
		{"number as it is written", payload, "", map[string]string{"key": "${payload.a.b.n}"}, "||1.50|no fault"},
		{"boolean", payload, "", map[string]string{"group": "${payload.a.b.t}"}, "|true||no fault"},
		{"escape", payload, "", map[string]string{"group": "${payload.e}"}, "|é||no fault"},
		{"null is none", payload, "", map[string]string{"group": "${payload.a.b.no}", "key": "${payload.a.b.no}"}, "|||no fault"},
		{"missing is none", payload, "", map[string]string{"group": "${payload.z.z}", "key": "${payload.a.z}"}, "|||no fault"},
		{"missing type", payload, "", map[string]string{"type": "${payload.z}"}, "|||the type (${payload.z})" + cannot + "it is missing or null"},
		{"object", payload, "", map[string]string{"type": "${payload.a}"}, "|||the type (${payload.a})" + cannot + "it is an object or a list"},
		{"list", payload, "", map[string]string{"key": "${payload.a.b.list}"}, "|||the key (${payload.a.b.list})" + cannot + "it is an object or a list"},
		{"into a text", payload, "", map[string]string{"key": "${payload.text.x}"}, "|||the key (${payload.text.x})" + cannot + "there is a text where an object should be"},
		{"into a number", payload, "", map[string]string{"key": "${payload.a.b.n.x}"}, "|||the key (${payload.a.b.n.x})" + cannot + "the payload is not a JSON object there"},
		{"no JSON", "<xml/>", "", map[string]string{"group": "${payload.a}"}, "|||the group (${payload.a}) of a row of public.outbox cannot be read, so the message stands outside"},
		{"no payload", "", "", map[string]string{"group": "${payload.a}"}, "|||no fault"},
		{"headers", "", `{"x.y": "1", "n": 5, "x.y": "2", "empty": ""}`, map[string]string{"type": "${header.x.y}", "key": "${header.n}", "group": "${header.empty}"}, "1||5|no fault"},
		{"header missing", "", `{}`, map[string]string{"group": "${header.x}"}, "|||no fault"},
		{"ungrouped", "", `{"x": "*"}`, map[string]string{"group": "${header.x}"}, "|||no fault"},
	} {
		m := &outbox.Message{}
		if c.payload != "" {
			m.Payload = []byte(c.payload)
		}
		if c.headers != "" {
			var err error
			if m.Headers, err = columns.AppendHeaders(nil, []byte(c.headers)); err != nil {
				t.Fatal(err)
			}
		}
		if got := refined(t, m, c.columns, "*"); !strings.HasPrefix(got, c.want) || !strings.Contains(c.want, "cannot") && got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := refined(t, &outbox.Message{Payload: fmt.Appendf(nil, `{"g": %q}`, strings.Repeat("g", outbox.MaxGroup+1))}, map[string]string{"group": "${payload.g}"}); !strings.Contains(got, "has more than") {
		t.Errorf("a long group: %.300s", got)
	}
}

func TestReferenceTexts(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"${header.a}": true, "${header.a.b-c}": true, "${payload.a.b}": true, "${header.}": false, "${payload.}": false, "${payload.a..b}": false,
		"${payload.a.}": false, "${a}": false, "${header.a": false, "${header.a}:${header.b}": false, "${headers.a}": false, "${}": false,
	} {
		r, err := outbox.ParseReference("group", text)
		if (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
		if ok && r.String() != text {
			t.Errorf("%s is %s", text, &r)
		}
	}
	if _, err := outbox.ParseReference("id", "${header.a}"); err == nil {
		t.Error("an id from a header")
	}
}

// TestHeaderFilter: a denied header stays behind even if it is allowed.
func TestHeaderFilter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allow, deny []string
		want        string
	}{
		{nil, nil, "trace-id X-A X-B App\\Stamp "},
		{[]string{"x-*"}, nil, ""},
		{[]string{"X-*"}, nil, "X-A X-B "},
		{nil, []string{`*\*`, "X-?"}, "trace-id "},
		{[]string{"X-*", "trace-id"}, []string{"X-B"}, "trace-id X-A "},
		{[]string{"/.*/"}, nil, ""},
	} {
		m := &outbox.Message{}
		for _, name := range []string{"trace-id", "X-A", "X-B", `App\Stamp`} {
			m.Headers = append(m.Headers, outbox.Header{Name: name})
		}
		columns.NewRefiner(&outbox.Table{Headers: outbox.HeaderFilter{Allow: c.allow, Deny: c.deny}}).Refine(m)
		got := ""
		for _, h := range m.Headers {
			got += h.Name + " "
		}
		if got != c.want {
			t.Errorf("allow %q, deny %q: %s, want %s", c.allow, c.deny, got, c.want)
		}
	}
}

// FuzzReferences: whatever a payload holds, a reference leads to a value of it or to a fault.
func FuzzReferences(f *testing.F) {
	f.Add(`{"a": {"b": "c"}}`, "a.b")
	f.Add(`{"a": [1, {"b": null}], "a\u0062": -1e5}`, "ab")
	f.Add(`null`, "a")
	f.Fuzz(func(t *testing.T, payload, path string) {
		r, err := outbox.ParseReference("key", "${payload."+path+"}")
		if err != nil {
			t.Skip()
		}
		m := &outbox.Message{Payload: []byte(payload)}
		columns.NewRefiner(&outbox.Table{References: []outbox.Reference{r}}).Refine(m)
		if m.Fault != nil && m.Key != nil {
			t.Errorf("key %q and a fault %s", m.Key, m.Fault.Reason)
		}
	})
}
