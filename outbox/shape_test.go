package outbox_test

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
)

// TestColumnNames: every key of the configuration's columns has its place, and only group, which may name several
// columns, has none of the plain kind.
func TestColumnNames(t *testing.T) {
	t.Parallel()
	var c outbox.Columns
	seen := map[*string]string{}
	for _, name := range outbox.ColumnNames {
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
		if c.ID == "" || c.Type == "" || c.Payload == "" {
			t.Errorf("shape %s lacks id, type or payload: %+v", want.Name, c)
		}
		if want.OnDelivered == outbox.Mark && c.Status == "" && c.DeliveredAt == "" {
			t.Errorf("shape %s marks rows without a column for it", want.Name)
		}
	}
	if _, ok := outbox.ShapeNamed("nonsense"); ok {
		t.Error("an unknown shape is found")
	}
}
