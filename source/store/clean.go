package store

import (
	"encoding/json"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// CleanWindow is how many rows one step of a clean-up looks at, and so the most that one transaction removes.
const CleanWindow = 1000

// A CleanCursor is where a clean-up goes on: in which table, and after which id. Place is what stands for the id where ids are
// not ordered as they are written.
type CleanCursor struct {
	Table string `json:"table"`
	After []byte `json:"after,omitempty"`
	Place string `json:"place,omitempty"`
}

// NextToClean is the beginning of the next table with a retention, after one of tables; "" is before the first. Nil: there is none.
func NextToClean(tables []*outbox.Table, after string) *CleanCursor {
	found := after == ""
	for _, t := range tables {
		if found && t.Retention > 0 && t.OnDelivered == outbox.Mark && t.Columns.DeliveredAt != "" {
			return &CleanCursor{Table: t.String()}
		}
		found = found || t.String() == after
	}
	return nil
}

// ParseCleanCursor reads what Text wrote; "" is the beginning. Nil: there is nothing to clean up.
func ParseCleanCursor(tables []*outbox.Table, text string) (*CleanCursor, error) {
	if text == "" {
		return NextToClean(tables, ""), nil
	}
	at := &CleanCursor{}
	if err := json.Unmarshal([]byte(text), at); err != nil {
		return nil, fmt.Errorf("read cursor %q: %w", text, err)
	}
	for _, t := range tables {
		if t.String() == at.Table {
			return at, nil
		}
	}
	return NextToClean(tables, ""), nil // the table left the configuration
}

// Text is the cursor in one piece; "" for nil, the end.
func (c *CleanCursor) Text() (string, error) {
	if c == nil {
		return "", nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write cursor: %w", err)
	}
	return string(text), nil
}

// A Cleaning is one step of a clean-up in the hands of a store. Window looks at the next rows behind the cursor, which it moves on, and returns
// the ids of those that are old and how many it saw. Remove removes old rows of the cursor's table. Fault gives a store's error its meaning.
type Cleaning struct {
	Window func(at *CleanCursor) (old []string, seen int, err error)
	Remove func(table string, old []string) (removed int, err error)
	Fault  func(doing string, err error) error
}

// Do makes the step: it is what checkpoint.Cleaner says of Clean.
func (c *Cleaning) Do(tables []*outbox.Table, cursor string) (removed int, next string, err error) {
	at, err := ParseCleanCursor(tables, cursor)
	if err != nil || at == nil {
		return 0, "", err
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
		at = NextToClean(tables, at.Table)
	}
	next, err = at.Text()
	return removed, next, err
}
