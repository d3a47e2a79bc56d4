package sink_test

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

func TestPick(t *testing.T) {
	t.Parallel()
	d := &sink.Delivery{
		Message: &outbox.Message{ID: "7", Type: "Sent", Group: "g", Tenant: "acme", CorrelationID: "c-1",
			Headers: []outbox.Header{{Name: "To", Value: []byte("b@example.org")}, {Name: "bad", Value: []byte{0xff}}}},
		Topic: "mails", Key: []byte("k"), Headers: []outbox.Header{{Name: "to", Value: []byte("a@example.org")}, {Name: "none"}},
		Value: []byte(`{"to": "x\u00e9", "n": 5, "nothing": null, "config": {"to": ["a", "b"], "deep": {"er": "1"}}}`),
	}
	for text, want := range map[string]struct {
		json, text string
		fails      bool
	}{
		"header:to":              {`"a@example.org"`, "a@example.org", false},
		"header:None":            {},
		"header:missing":         {},
		"header:bad":             {fails: true},
		"payload:to":             {`"x\u00e9"`, "xé", false},
		"payload:n":              {`5`, "", true},
		"payload:nothing":        {},
		"payload:missing":        {},
		"payload:config.to":      {`["a", "b"]`, "", true},
		"payload:config.deep.er": {`"1"`, "1", false},
		"payload:config.missing": {},
		"payload:to.deeper":      {fails: true},
		"message:id":             {`"7"`, "7", false},
		"message:type":           {`"Sent"`, "Sent", false},
		"message:topic":          {`"mails"`, "mails", false},
		"message:key":            {`"k"`, "k", false},
		"message:tenant":         {`"acme"`, "acme", false},
		"message:correlation_id": {`"c-1"`, "c-1", false},
		"ops@example.org":        {`"ops@example.org"`, "ops@example.org", false},
		"Order: shipped":         {`"Order: shipped"`, "Order: shipped", false},
		"":                       {},
	} {
		p, err := sink.ParsePick(text)
		if err != nil || p.String() != text {
			t.Errorf("parse %q: %v, %v", text, p, err)
			continue
		}
		v := &sink.View{Delivery: d}
		raw, jsonErr := p.JSON(v)
		if got := string(raw); got != want.json || jsonErr != nil && !want.fails {
			t.Errorf("%q as JSON: %s, %v, want %s", text, got, jsonErr, want.json)
		}
		got, ok, textErr := p.Text(v)
		if got != want.text || ok != (want.text != "") || (textErr != nil) != want.fails {
			t.Errorf("%q as text: %q, %v, %v, want %q", text, got, ok, textErr, want.text)
		}
	}
	for _, wrong := range []string{"header:", "payload:a..b", "payload:.", "message:payload", "message:"} {
		if p, err := sink.ParsePick(wrong); err == nil {
			t.Errorf("%q was parsed as %v", wrong, p)
		}
	}
	for _, value := range []string{"", "text", `[1]`, `"text"`, "null"} {
		d.Value = []byte(value)
		p, _ := sink.ParsePick("payload:to")
		if raw, err := p.JSON(&sink.View{Delivery: d}); err == nil || raw != nil {
			t.Errorf("payload %q: %s, want an error", value, raw)
		}
		whole, _ := sink.ParsePick("payload:")
		if got, ok, err := whole.Text(&sink.View{Delivery: d}); got != value || !ok || err != nil {
			t.Errorf("all of %q: %q, %v, %v", value, got, ok, err)
		}
	}
}

func TestUniqueID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"42": "p/public.t/42", "-42": "p/public.t/-42", "": "", "4f": "4f", "-": "-", "4-2": "4-2",
		"0198a1b2-0000-7000-8000-000000000001": "0198a1b2-0000-7000-8000-000000000001",
	} {
		d := &sink.Delivery{Message: &outbox.Message{ID: id, Table: "public.t"}, Source: "p"}
		if got := sink.UniqueID(d); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestHeaderText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a b": "a b", " a ": "%20a%20", "100%": "100%25", "é": "é", "a\r\nb": "a%0D%0Ab", "\x7f": "%7F",
	} {
		if got := sink.HeaderText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := string(sink.AppendHeaderText([]byte("x"), "a,b", ",")); got != "xa%2Cb" {
		t.Error(got)
	}
	for name, want := range map[string]bool{"": false, "a-b": true, "a b": false, "a:b": false, "é": false} {
		if sink.ValidHeaderName(name) != want {
			t.Errorf("name %q: want %v", name, want)
		}
	}
}
