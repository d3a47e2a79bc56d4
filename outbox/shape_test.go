package outbox_test

import (
	"slices"
	"testing"

	"github.com/tailbox/tailbox/outbox"
)

// TestColumnNames: every key of the configuration's columns has its place, and only group, which may name several
// columns, has none of the plain kind.
func TestColumnNames(t *testing.T) {
	t.Parallel()
	var c outbox.Columns
	seen := map[*string]string{}
	for _, name := range outbox.ColumnNames() {
		p := c.Field(name)
		if (p == nil) != (name == "group") {
			t.Errorf("Field(%q) = %v", name, p)
		}
		if other, ok := seen[p]; ok && p != nil {
			t.Errorf("%q and %q share a place", name, other)
		}
		seen[p] = name
	}
	if c.Field("nonsense") != nil {
		t.Error("an unknown key has a place")
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	for _, want := range outbox.Shapes() {
		got, ok := outbox.ShapeNamed(want.Name)
		if !ok || got.Name != want.Name {
			t.Errorf("ShapeNamed(%q) = %v, %v", want.Name, got.Name, ok)
		}
		c := want.Columns
		if c.ID == "" || c.Payload == "" || len(want.Tables) == 0 {
			t.Errorf("shape %s lacks id, payload or a name: %+v", want.Name, want)
		}
		if _, err := outbox.ParseTopic(want.Topic); err != nil || want.Topic != "" && c.Topic != "" {
			t.Errorf("shape %s: topic %q beside column %q: %v", want.Name, want.Topic, c.Topic, err)
		}
		if w := want.Words; w.Delivered == w.Pending || w.Dead == w.Pending || w.Dead == w.Delivered || slices.Contains(w.List(), "") {
			t.Errorf("shape %s: words %+v", want.Name, w)
		}
		if doc := want.AsDocuments(); doc.Columns.ID != "_id" || doc.Columns.Seq != "" || want.Columns.ID == "_id" {
			t.Errorf("shape %s in MongoDB: %+v", want.Name, doc.Columns)
		}
		if want.OnDelivered == outbox.Mark && c.Status == "" && c.DeliveredAt == "" {
			t.Errorf("shape %s marks rows without a column for it", want.Name)
		}
	}
	if _, ok := outbox.ShapeNamed("nonsense"); ok {
		t.Error("an unknown shape is found")
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	w := outbox.Words{Pending: "0", Delivered: "-1", Retrying: "01", Waiting: "", Dead: "9"}
	if n := w.Numbers(); n != 3 {
		t.Errorf("%d of %v are whole numbers as they are written, want 3", n, w)
	}
	for i, name := range outbox.WordNames() {
		if p := w.Word(name); p == nil || *p != w.List()[i] {
			t.Errorf("Word(%q) is not the one at %d of List", name, i)
		}
	}
	if w.Word("failed") != nil {
		t.Error("an unknown key has a place")
	}
}

func TestTopicTemplate(t *testing.T) {
	t.Parallel()
	m := &outbox.Message{Type: "OrderPaid", Table: "shop.outbox", Group: "order:7", Key: []byte("7"), Tenant: "acme",
		Headers: []outbox.Header{{Name: "subject", Value: []byte("orders.paid")}}}
	for text, want := range map[string]string{
		"":                           "",
		"orders":                     "orders",
		"${type}":                    "OrderPaid",
		"${table}.${type}":           "outbox.OrderPaid",
		"t/${tenant}/${key}/$x":      "t/acme/7/$x",
		"${header.subject}":          "orders.paid",
		"a${header.nothing}${group}": "aorder:7",
	} {
		template, err := outbox.ParseTopic(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := template.Of(m); got != want {
			t.Errorf("%q makes %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"${", "a${type", "${Type}", "${header.}", "${}", "${payload}"} {
		if _, err := outbox.ParseTopic(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
