package sqlstore

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
