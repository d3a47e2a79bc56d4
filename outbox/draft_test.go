package outbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

func table(t *testing.T, shape string) outbox.Table {
	t.Helper()
	tab, err := outbox.NewTable(shape, "public.outbox")
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestValues: what a draft has lands in the columns that the table has for it.
func TestValues(t *testing.T) {
	t.Parallel()
	tab := table(t, "debezium")
	values, err := tab.Values(&outbox.Draft{Type: "OrderPaid", Group: "order:4:2", Payload: []byte("{}"), Fields: map[string]any{"extra": 7}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, v := range values {
		got[v.Column] = v.Value
	}
	if len(got) != 5 || got["type"] != "OrderPaid" || got["aggregatetype"] != "order" || got["aggregateid"] != "4:2" || got["extra"] != 7 {
		t.Errorf("values: %v", got)
	}
	// The group and the parts that it is made of may both be given where they agree.
	if _, err := tab.Values(&outbox.Draft{Type: "t", Topic: "order", Key: "42", Group: "order:42"}); err != nil {
		t.Error(err)
	}
}

// TestValuesRefused: nothing is left out silently, and nothing is written that the relay would not deliver as it is meant.
func TestValuesRefused(t *testing.T) {
	t.Parallel()
	debezium, tailbox := table(t, "debezium"), table(t, "tailbox")
	for _, test := range []struct {
		table       outbox.Table
		draft       outbox.Draft
		field, want string
	}{
		{debezium, outbox.Draft{Topic: "order"}, "Type", "is empty"},
		{debezium, outbox.Draft{Type: "t", Tenant: "a"}, "Tenant", "no column"},
		{debezium, outbox.Draft{Type: "t", Headers: map[string]string{"a": "b"}}, "Headers", "no column"},
		{debezium, outbox.Draft{Type: "t", IdempotencyKey: "k"}, "IdempotencyKey", "no column"},
		{debezium, outbox.Draft{Type: "t", Priority: 1}, "Priority", "no column"},
		{debezium, outbox.Draft{Type: "t", AvailableAt: time.Now()}, "AvailableAt", "no column"},
		{debezium, outbox.Draft{Type: "t", MaxAttempts: 3}, "MaxAttempts", "no column"},
		{debezium, outbox.Draft{Type: "t", Group: "alone"}, "Group", "2 parts"},
		{debezium, outbox.Draft{Type: "t", Topic: "order", Group: "invoice:1"}, "Group", "differ"},
		{debezium, outbox.Draft{Type: "t", Fields: map[string]any{"type": "u"}}, "Fields[type]", "set only one"},
		{tailbox, outbox.Draft{Type: "t", MaxAttempts: -1}, "MaxAttempts", "-1"},
		{tailbox, outbox.Draft{Type: "t", Once: true}, "Once", "IdempotencyKey"},
		{tailbox, outbox.Draft{Type: "t", ID: "tailbox-no-id:x"}, "ID", "without an id"},
		{tailbox, outbox.Draft{Type: "t", ID: strings.Repeat("x", outbox.MaxIndexed+1)}, "ID", "1025"},
		{tailbox, outbox.Draft{Type: strings.Repeat("x", outbox.MaxIndexed+1)}, "Type", "1025"},
		{tailbox, outbox.Draft{Type: "t", Tenant: strings.Repeat("x", outbox.MaxIndexed+1)}, "Tenant", "1025"},
		{tailbox, outbox.Draft{Type: "t", Group: strings.Repeat("x", outbox.MaxGroup+1)}, "Group", "65537"},
		{tailbox, outbox.Draft{Type: "t", Key: strings.Repeat("x", outbox.MaxGroup+1)}, "Key", "65537"},
		{tailbox, outbox.Draft{Type: "t", CorrelationID: strings.Repeat("x", outbox.MaxGroup+1)}, "CorrelationID", "65537"},
		{tailbox, outbox.Draft{Type: "t", Headers: map[string]string{strings.Repeat("x", 257): ""}}, "Headers", "257"},
		{debezium, outbox.Draft{Type: "t", Topic: strings.Repeat("x", 40_000), Key: strings.Repeat("x", 40_000)}, "Group", "80001"},
	} {
		_, err := test.table.Values(&test.draft)
		wrong, ok := errors.AsType[*outbox.DraftError](err)
		if !ok || wrong.Field != test.field || !strings.Contains(wrong.Reason, test.want) {
			t.Errorf("%s %.200v: got %v, want %s … %s", test.table.Shape, test.draft, err, test.field, test.want)
		}
	}
}

func TestNewTable(t *testing.T) {
	t.Parallel()
	got, err := outbox.NewTable("tailbox", "outbox")
	if err != nil || got.Schema != "" || got.Name != "outbox" || got.Columns.ID != "id" || got.Words.Pending != "pending" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := outbox.NewTable("talebox", "outbox"); err == nil || !strings.Contains(err.Error(), "debezium, tailbox") {
		t.Errorf("an unknown shape: %v", err)
	}
	if _, err := outbox.NewTable("tailbox", "public."); err == nil {
		t.Error("a table without a name is made")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	b, err := outbox.JSON(map[string]any{"a": "<&>"})
	if err != nil || string(b) != `{"a":"<&>"}` {
		t.Errorf("got %s, %v", b, err)
	}
	if _, err := outbox.JSON(func() {}); err == nil {
		t.Error("a function is JSON")
	}
}
