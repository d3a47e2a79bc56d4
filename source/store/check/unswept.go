package check

import (
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// LeftAlone is what check says of rows that a first start leaves alone (source.start: now). Where rows are deleted when they are delivered, one
// that is there is pending, and nothing remembers which of them were there before.
func LeftAlone(t *outbox.Table, many string) Finding {
	f := Finding{Level: Info, What: fmt.Sprintf("the first start leaves alone what is in %s now (source.start: now): %s", t, many)}
	if t.OnDelivered == outbox.Delete {
		f.Level, f.Fix = Warning, "remove them before, or set on_delivered to keep, or source.reconcile to 0s"
		f.What += "; but with on_delivered: delete a row that is there is pending, so the comparison with the log (source.reconcile) delivers and deletes them later, as " +
			"does a sweep after a lost position"
	}
	return f
}

// Unswept is what check says of a table whose rows do not show which of them are pending: nil if a lost position is no loss. judged: a column
// shows it. Of a table whose rows are deleted, those that are there are pending.
func Unswept(t *outbox.Table, judged bool) *Finding {
	if judged || t.OnDelivered != outbox.Keep {
		return nil
	}
	return &Finding{Level: Warning, Fix: "name a status column or delivered_at under source.tables.columns, or set on_delivered: delete",
		What: fmt.Sprintf("table %s cannot be swept: if the position in the log is ever lost, the relay stops until an operator accepts the gap", t)}
}
