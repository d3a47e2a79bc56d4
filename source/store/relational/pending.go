package relational

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A RowFinder looks at rows of the users' tables that are pending: the statements behind Pending and Fetch. If others have locked a table as a whole,
// Passing is true of a statement's error.
type RowFinder interface {
	// Window is PendingWindow of store.PendingReader.
	Window(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error)
	// Nameless counts the pending rows of a table that have no id, up to store.NamelessMost.
	Nameless(ctx context.Context, t *outbox.Table) (int, error)
	// RowsUpTo is PendingRows of store.PendingReader.
	RowsUpTo(ctx context.Context, t *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error)
	// EachParked names the sinks that have deliveries of messages parked, by the messages' indexes.
	EachParked(ctx context.Context, ms []*outbox.Message, on func(i int, sink string)) error
	// AskOnce adds a replay that refreshes, unless one is open for the same reason.
	AskOnce(ctx context.Context, r *checkpoint.Request, selection string) error
	// LogEnd makes the end of the log the barrier, and writes past it, so that the server sends the log up to it even when nothing else
	// happens.
	LogEnd(ctx context.Context, out *checkpoint.PendingRows) error
	// LastNumber is the highest number of the rows that can be seen, of a table that is polled.
	LastNumber(ctx context.Context) (uint64, error)
	// Passing reports whether a statement failed because of others that ran at the same time.
	Passing(err error) bool
}

// Pending implements checkpoint.Store. It reads the list, then the barrier: the end of the log. If a listed row is in the log, it is before that end.
// If the table is polled, the barrier is the highest visible number: no listed row has a higher one.
func (c *Core) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	out, err := store.ListPending(ctx, c.db, c.Configured(), cursor, limit, c.log)
	if err != nil {
		return nil, err
	}
	if !c.poll {
		return out, c.db.LogEnd(ctx, out)
	}
	last, err := c.db.LastNumber(ctx)
	out.Barrier = strconv.FormatUint(last, 10)
	out.Commit = max(last, polledTo(c.Resume)) // the rows with the highest numbers may be deleted
	return out, err
}

// polledTo is the number up to which a checkpoint of polling goes; 0 for one of a log.
func polledTo(at source.Resume) uint64 {
	number, _, _ := strings.Cut(string(at), " ")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Fetch implements checkpoint.Store.
func (c *Core) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ms, parkedAt, err := store.Fetch(ctx, c.db, c.Configured(), rows, at, bytes)
	if c.poll {
		store.WarnFoundLate(c.log, ms)
	}
	return ms, parkedAt, err
}

// PendingWindow implements store.PendingReader.
func (c *Core) PendingWindow(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error) {
	if len(at.After) == 0 {
		if err := c.warnNameless(ctx, at.Table); err != nil {
			return nil, false, store.LockedTable(err, c.db.Passing)
		}
	}
	rows, end, err = c.db.Window(ctx, at)
	if err != nil {
		err = c.db.Fault("list pending rows of table "+at.Table, err)
	}
	return rows, end, store.LockedTable(err, c.db.Passing)
}

// warnNameless reports rows of a table that have no id.
func (c *Core) warnNameless(ctx context.Context, table string) error {
	for _, t := range c.Configured() {
		if t.String() != table {
			continue
		}
		n, err := c.db.Nameless(ctx, t)
		if err != nil {
			return c.db.Fault("look for rows without an id in table "+table, err)
		}
		store.WarnNameless(c.log, t, n)
	}
	return nil
}

// PendingRows implements store.PendingReader.
func (c *Core) PendingRows(ctx context.Context, t *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	ms, err := c.db.RowsUpTo(ctx, t, ids, bytes)
	return ms, store.LockedTable(err, c.db.Passing)
}

// ReadRow implements store.ParkedReader.
func (c *Core) ReadRow(ctx context.Context, table, id string) ([]*outbox.Message, error) {
	ms, err := c.db.ReadRows(ctx, table, []string{id}, false)
	if c.db.Passing(err) {
		return nil, store.ErrTableLocked
	}
	return ms, err
}

// AskForReset implements store.PendingReader.
func (c *Core) AskForReset(ctx context.Context, table string, ids []string) error {
	r := store.ResetRequest("rows", table, ids)
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return fmt.Errorf("write selection: %w", err)
	}
	if err := c.db.AskOnce(ctx, r, string(selection)); err != nil {
		return c.db.Fault("ask for the replay of rows that were reset", err)
	}
	return nil
}

// ParkedAt implements store.PendingReader.
func (c *Core) ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
	var at [][]string
	if err := c.db.EachParked(ctx, ms, func(i int, sink string) {
		if at == nil {
			at = make([][]string, len(ms))
		}
		at[i] = append(at[i], sink)
	}); err != nil {
		return nil, c.db.Fault("look for parked deliveries", err)
	}
	return at, nil
}
