package catalog

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// A group that cannot be read leaves its message without one: nothing tells whom it would have to wait for.
func TestDecodeNoGroup(t *testing.T) {
	t.Parallel()
	s, _ := outbox.ShapeNamed("tailbox")
	table := outbox.Table{Schema: "public", Name: "a", Shape: "tailbox", Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
	p, err := NewPlan(&table, []Column{{Name: "id", Kind: KindText}, {Name: "type", Kind: KindText}, {Name: "message_group", Kind: KindJSONB}, {Name: "payload", Kind: KindBytea}})
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) columns.Value { return columns.Value{Tag: 'b', Data: []byte(s)} }
	for what, group := range map[string]columns.Value{"a later version": text("\x09{}"), "a value that is not in the log": {Tag: 'u'}} {
		for _, large := range []bool{false, true} {
			d := columns.Decoder{MaxMessage: 1000}
			m := d.NewMessage()
			if err := d.Decode(&p.Plan, []columns.Value{text("1"), text("T"), group, text("p")}, large, m); err != nil {
				t.Fatal(err)
			}
			if m.Group != "" || m.ID != "1" || m.Type != "T" || m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable || !strings.Contains(m.Fault.Reason, "column message_group") {
				t.Errorf("%s, large %t: group %q, fault %+v", what, large, m.Group, m.Fault)
			}
		}
	}
}
