package store

import (
	"github.com/tailbox/tailbox/outbox"
)

// CleanWindow is how many rows one step of a clean-up looks at, and so the most that one transaction removes.
const CleanWindow = 1000

// nextToClean is the beginning of the next table with a retention.
func nextToClean(tables []*outbox.Table, after string) *Cursor {
	return following(tables, after, func(t *outbox.Table) bool {
		return t.Retention > 0 && t.OnDelivered == outbox.Mark && t.Columns.DeliveredAt != ""
	})
}

// A Cleaning is one step of a clean-up in the hands of a store. Window looks at the next rows behind the cursor, which it moves on, and returns
// the ids of those that are old and how many it saw. Remove removes old rows of the cursor's table. Fault gives a store's error its meaning.
type Cleaning struct {
	Window func(at *Cursor) (old []string, seen int, err error)
	Remove func(table string, old []string) (removed int, err error)
	Fault  func(doing string, err error) error
}

// Do performs the step: it implements Clean of checkpoint.Cleaner.
func (c *Cleaning) Do(tables []*outbox.Table, cursor string) (removed int, next string, err error) {
	var at *Cursor
	if cursor != "" {
		if at, err = parseCursor(tables, cursor); err != nil {
			return 0, "", err
		}
	}
	if at == nil { // or its table left the configuration
		if at = nextToClean(tables, ""); at == nil {
			return 0, "", nil
		}
	}
	old, seen, err := c.Window(at)
	if err != nil {
		return 0, "", c.Fault("look for delivered rows of table "+at.Table, err)
	}
	if len(old) > 0 {
		if removed, err = c.Remove(at.Table, old); err != nil {
			return 0, "", c.Fault("remove delivered rows of table "+at.Table, err)
		}
	}
	if seen < CleanWindow {
		at = nextToClean(tables, at.Table)
	}
	next, err = at.Text()
	return removed, next, err
}
