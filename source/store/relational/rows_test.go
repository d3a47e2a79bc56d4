package relational

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// show is what happens to rows, in one line.
func show(all []Rows) string {
	var out []string
	for _, r := range all {
		verb := map[bool]string{true: "delete", false: "change"}[r.Delete]
		if r.Alike {
			verb += " alike"
		}
		var ids []string
		for _, c := range r.Changes {
			ids = append(ids, fmt.Sprintf("%s@%d=%s", c.ID, c.Index, c.State))
		}
		out = append(out, r.Table+" "+verb+" "+strings.Join(ids, " "))
	}
	return strings.Join(out, "; ")
}

func TestRows(t *testing.T) {
	t.Parallel()
	table := func(name string, on outbox.OnDelivered, receipts bool) Table {
		return Table{Table: &outbox.Table{Schema: "s", Name: name, OnDelivered: on}, Findable: func(id string) bool { return id != "" },
			View: &store.TableView{OnDelivered: on, HasStatus: true, Shows: true, Viewable: on == outbox.Mark,
				Updatable: on == outbox.Mark, Receipts: receipts}}
	}
	tables := []Table{table("marked", outbox.Mark, false), table("receipts", outbox.Mark, true), table("deleted", outbox.Delete, false), table("kept", outbox.Keep, false)}
	row := func(table, id string, parked bool) checkpoint.Row {
		return checkpoint.Row{Table: "s." + table, ID: id, Parked: parked}
	}
	a := &Attempt{Attempt: store.NewAttempt(&checkpoint.Settlement{Rows: []checkpoint.Row{
		row("deleted", "1", false), row("marked", "2", false), row("marked", "", false), row("gone", "3", false), row("kept", "4", false),
		row("marked", "5", true), row("receipts", "6", false), row("marked", "7", false), row("deleted", "8", true), row("kept", "9", true),
	}}, nil)}
	want := "s.marked change alike 2@1=delivered 7@7=delivered; s.receipts change 6@6=delivered; s.deleted delete alike 1@0="
	if got := show(a.PlainRows(tables)); got != want {
		t.Errorf("plain rows: %s, want %s", got, want)
	}
	a.Messages.Collect(a.In, nil)
	a.Messages.Of(store.MessageKey{Table: "s.marked", ID: "5"}).See(store.ParkedView{State: checkpoint.StateDead})
	want = "s.marked change 5@5=dead; s.deleted delete alike 8@8="
	if got := show(a.MessageRows(tables, func(uint64) bool { return true })); got != want {
		t.Errorf("rows of messages: %s, want %s", got, want)
	}
}
