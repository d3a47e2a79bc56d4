package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// pendingWindows is how many windows of rows one call of Pending looks at to find some, so that the session is never busy for long.
const pendingWindows = 10

// A Cursor says where to read rows on: in which table, and after which id. Place replaces the id if ids do not sort like their texts.
type Cursor struct {
	Table string `json:"table"`
	After []byte `json:"after,omitempty"`
	Place string `json:"place,omitempty"`
}

// Text is the cursor in one piece; "" for nil, the end.
func (c *Cursor) Text() (string, error) {
	if c == nil {
		return "", nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("write cursor: %w", err)
	}
	return string(text), nil
}

// parseCursor reads what Text wrote; nil if its table is none of tables.
func parseCursor(tables []*outbox.Table, text string) (*Cursor, error) {
	at := &Cursor{}
	if err := json.Unmarshal([]byte(text), at); err != nil {
		return nil, fmt.Errorf("read cursor %q: %w", text, err)
	}
	for _, t := range tables {
		if t.String() == at.Table {
			return at, nil
		}
	}
	return nil, nil
}

// following returns the beginning of the first wanted table behind after ("" = from the first on). Nil: there is none.
func following(tables []*outbox.Table, after string, wanted func(*outbox.Table) bool) *Cursor {
	found := after == ""
	for _, t := range tables {
		if found && wanted(t) {
			return &Cursor{Table: t.String()}
		}
		found = found || t.String() == after
	}
	return nil
}

// nextPending is the beginning of the next table with rows that say whether they are pending.
func nextPending(tables []*outbox.Table, after string) *Cursor {
	return following(tables, after, func(t *outbox.Table) bool { return t.OnDelivered != outbox.Keep })
}

// A PendingRow is what a window shows of a row.
type PendingRow struct {
	ID string
	// After and Place are where the next window begins behind it; see Cursor.
	After []byte
	Place string
	// Missing: it is pending, and not parked. Reset: it is pending although a delivery of it is dead and its row was dealt with.
	Missing, Reset bool
}

// A PendingReader looks at users' rows that are pending: the statements behind Pending and Fetch.
type PendingReader interface {
	// PendingWindow reads the next rows behind a cursor, in order. It returns those that are missing or reset, and the last row. end: no rows follow
	// in the table. ErrTableLocked: others have locked the table as a whole, for example by ALTER TABLE.
	PendingWindow(ctx context.Context, at *Cursor) (rows []PendingRow, end bool, err error)
	// AskForReset asks for the replay of dead deliveries whose rows say that they are pending again, unless such a request is
	// open already.
	AskForReset(ctx context.Context, table string, ids []string) error
	// Clock is the server's time.
	Clock(ctx context.Context) (time.Time, error)
	// PendingRows reads rows of a table that are still pending, in the order in which they are swept, until they reach bytes. ErrTableLocked is as
	// above.
	PendingRows(ctx context.Context, t *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error)
	// ParkedAt names for each message the sinks that have a delivery of it parked, dropped ones too. Nil if there is none.
	ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error)
}

// ListPending is the list of Pending of checkpoint.Store: rows that are pending and not parked, window by window, at most limit. Rows with parked
// deliveries are the poller's: they are left out. But if a status says pending although a delivery of the row is dead, an operator has
// reset it with plain SQL, which is a replay: a request for it is put into tailbox_request, and carried out as all are.
func ListPending(ctx context.Context, db PendingReader, tables []*outbox.Table, cursor string, limit int, log *slog.Logger) (*checkpoint.PendingRows, error) {
	at := nextPending(tables, "")
	if cursor != "" {
		var err error
		if at, err = parseCursor(tables, cursor); err != nil {
			return nil, err
		} else if at == nil {
			return nil, fmt.Errorf("read cursor %q: there is no such table", cursor)
		}
	}
	l := &listing{db: db, tables: tables, out: &checkpoint.PendingRows{}, limit: limit}
	for windows := 0; at != nil && windows < pendingWindows && len(l.out.Rows) < limit; windows++ {
		next, err := l.window(ctx, at)
		switch {
		case errors.Is(err, ErrTableLocked):
			log.Warn("table is locked: it is compared with the log the next time", "table", at.Table, "error", err)
			next = nextPending(tables, at.Table)
		case err != nil:
			return nil, err
		}
		at = next
	}
	var err error
	l.out.Cursor, err = at.Text()
	return l.out, err
}

// A listing is one call of ListPending.
type listing struct {
	db     PendingReader
	tables []*outbox.Table
	out    *checkpoint.PendingRows
	limit  int
}

// window looks at one window, and returns where the next one begins.
func (l *listing) window(ctx context.Context, at *Cursor) (*Cursor, error) {
	rows, end, err := l.db.PendingWindow(ctx, at)
	if err != nil {
		return nil, err
	}
	next := *at
	var reset []string
	for i := range rows {
		r := &rows[i]
		if r.Missing && len(l.out.Rows) == l.limit {
			end = false
			break
		}
		next.After, next.Place = r.After, r.Place
		if r.Missing {
			l.out.Rows = append(l.out.Rows, checkpoint.RowRef{Table: at.Table, ID: r.ID})
		}
		if r.Reset {
			reset = append(reset, r.ID)
		}
	}
	if len(reset) > 0 {
		if err := l.db.AskForReset(ctx, at.Table, reset); err != nil {
			return nil, err
		}
	}
	if end {
		return nextPending(l.tables, at.Table), nil
	}
	return &next, nil
}

// ResetRequest is the request that replays dead deliveries whose rows of a table were set to pending again with plain SQL (R11). Rows is what the
// database calls them.
func ResetRequest(rows, table string, ids []string) *checkpoint.Request {
	return &checkpoint.Request{Verb: checkpoint.VerbReplay, Reason: rows + " of " + table + " were set to pending again", By: "tailbox",
		Selection: checkpoint.Selection{IDs: ids, Table: table, AllowReorder: true, Refresh: true}}
}

// Fetch is Fetch of checkpoint.Store: rows that are still pending, as messages at and after a position.
func Fetch(ctx context.Context, db PendingReader, tables []*outbox.Table, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ids := make(map[string][]string)
	for _, r := range rows {
		ids[r.Table] = append(ids[r.Table], r.ID)
	}
	now, err := db.Clock(ctx)
	if err != nil {
		return nil, nil, err
	}
	var ms []*outbox.Message
	for _, t := range tables {
		if len(ids[t.String()]) == 0 || t.OnDelivered == outbox.Keep || bytes <= 0 {
			continue
		}
		found, err := db.PendingRows(ctx, t, ids[t.String()], bytes)
		if errors.Is(err, ErrTableLocked) {
			continue // they are found again
		}
		if err != nil {
			return nil, nil, err
		}
		ms = append(ms, found...)
		for _, m := range found {
			bytes -= m.Size()
		}
	}
	if len(ms) == 0 {
		return nil, nil, nil
	}
	if err := PlaceFound(ms, at, now); err != nil {
		return nil, nil, err
	}
	parkedAt, err := db.ParkedAt(ctx, ms)
	return ms, parkedAt, err
}

// WarnFoundLate reports rows that a comparison has found in a table that is read by number.
func WarnFoundLate(log *slog.Logger, ms []*outbox.Message) {
	if len(ms) > 0 {
		log.Warn("rows came below the place up to which numbers were read, or were set to pending again: they are delivered now, late; "+
			"let each number be drawn in the transaction that commits it", "table", ms[0].Table, "rows", len(ms))
	}
}

// NamelessMost bounds how many rows without an id are counted.
const NamelessMost = 1000

// WarnNameless reports pending rows without an id. Such a row cannot be told from one that is parked under an id that was made for it, so it is
// left to the operator: once it has an id, it is found as any other.
func WarnNameless(log *slog.Logger, t *outbox.Table, rows int) {
	if rows > 0 {
		log.Warn("pending rows without an id are not compared with the log: give them an id, and they are delivered if they are not "+
			"parked, or delete them", "table", t.String(), "column", t.Columns.ID, "rows", rows)
	}
}

// LockedTable wraps err in ErrTableLocked if passing says that the error is temporary. Otherwise it returns err.
func LockedTable(err error, passing func(error) bool) error {
	if passing(err) {
		return fmt.Errorf("%w: %w", ErrTableLocked, err)
	}
	return err
}
