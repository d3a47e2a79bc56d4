package check

import (
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// LeftAlone is the finding for rows that a first start does not deliver (source.start: now). With on_delivered: delete, every row in the table counts
// as pending, and tailbox does not record which rows were there before the start.
func LeftAlone(t *outbox.Table, many string) Finding {
	f := Finding{Level: Info, What: fmt.Sprintf("the first start leaves alone what is in %s now (source.start: now): %s", t, many)}
	if t.OnDelivered == outbox.Delete {
		f.Level, f.Fix = Warning, "remove them before, or set on_delivered to keep, or source.reconcile to 0s"
		f.What += "; but with on_delivered: delete a row that is there is pending, so the comparison with the log (source.reconcile) delivers and deletes them later, as " +
			"does a sweep after a lost position"
	}
	return f
}

// Unswept is the finding for a table whose rows cannot be swept; nil if they can. judged: a column shows which rows are pending. With on_delivered:
// delete, all rows are.
func Unswept(t *outbox.Table, judged bool) *Finding {
	if judged || t.OnDelivered != outbox.Keep {
		return nil
	}
	return &Finding{Level: Warning, Fix: "name a status column or delivered_at under source.tables.columns; or, if no program needs the rows later, set on_delivered: delete",
		What: fmt.Sprintf("table %s cannot be swept: if the position in the log is ever lost, the relay stops until an operator accepts the gap", t)}
}
