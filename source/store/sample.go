package store

import (
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// A Sample is a change that rows of a table get, with the state that it shows.
type Sample struct {
	State  string
	Change RowChange
}

// Samples are one change of each kind that the relay makes to rows of a table, but for deleting them: to find out whether the table takes
// it. At is when a message would be tried again.
func (t *TableView) Samples(at time.Time) (list []Sample) {
	c := RowChange{Attempts: 1}
	if t.Receipts {
		c.Receipt = "receipt"
	}
	if del, touch := t.Delivered(&c, false); touch && !del {
		list = append(list, Sample{"delivered", c})
	}
	if !t.Viewable || t.OnDelivered == outbox.Delete && !t.Shows {
		return list
	}
	return append(list, Sample{"retrying", RowChange{State: "retrying", Attempts: 1, Failures: 1, Next: &at, Err: "refused"}},
		Sample{"waiting", RowChange{State: "waiting"}}, Sample{"dead", RowChange{State: "dead", Attempts: 1, Failures: 1, Err: "refused"}})
}
