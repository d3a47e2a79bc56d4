package store

import (
	"context"
	"errors"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// LockedFor is how long a table that was locked as a whole (LOCK TABLES, ALTER TABLE) is left alone before it is tried again: each try
// holds up all the rest.
const LockedFor = 3 * time.Second

// ErrTableLocked means that a row's table is locked as a whole.
var ErrTableLocked = errors.New("the table is locked")

// atOnce is how soon Due is to be asked again if its answer was cut short.
const atOnce = time.Millisecond

// A RowReader reads a row of a user's table as a message. It returns none if the row or the table is gone, and ErrTableLocked if the table is locked
// as a whole.
type RowReader func(ctx context.Context, table, id string) ([]*outbox.Message, error)

// Complete reads a message from the user's table again if it was not copied whole when it was parked. The row's present content decides whether the
// message can be delivered: an operator may have raised max_message, or corrected a column. Group and position stay. Complete leaves out deliveries
// whose table is locked, and all that follow once the deliveries have more than so many bytes, copied or read. If ps is part of a lane, it also
// leaves out everything behind the first that it left out. again > 0 says that it left some out, and when to ask for them. It works in place.
func Complete(ctx context.Context, ps []checkpoint.Parked, lane bool, bytes int, read RowReader) (out []checkpoint.Parked, again time.Duration, err error) {
	c := completion{read: read, left: bytes, locked: make(map[string]bool)}
	out = ps[:0]
	for _, p := range ps {
		wait, err := c.complete(ctx, &p)
		switch {
		case err != nil:
			return nil, 0, err
		case wait == 0:
			out = append(out, p)
			continue
		case again == 0 || wait < again:
			again = wait
		}
		if lane {
			break
		}
	}
	return out, again, nil
}

// A completion is one call of Complete.
type completion struct {
	read   RowReader
	left   int // bytes; below 0, nothing more is read
	locked map[string]bool
}

// complete completes a delivery. If again > 0, leave it out, and ask for it again after that time.
func (c *completion) complete(ctx context.Context, p *checkpoint.Parked) (again time.Duration, err error) {
	id, table := TableID(p), p.Message.Table
	switch {
	case !p.InTable || outbox.IsStandInID(id):
		c.left -= p.Message.Bytes()
		return 0, nil
	case c.left < 0:
		return atOnce, nil
	case c.locked[table]:
		return LockedFor, nil
	}
	found, err := c.read(ctx, table, id)
	if errors.Is(err, ErrTableLocked) {
		c.locked[table] = true
		return LockedFor, nil
	}
	if err != nil {
		return 0, err
	}
	var fresh *outbox.Message
	if len(found) > 0 {
		fresh = found[0]
		c.left -= fresh.Bytes()
	}
	CompleteFrom(p, fresh)
	return 0, nil
}

// NextLook returns when to ask Due again: at once if its answer was cut short; else after again (Complete left some out) or next (the next one is
// due; below 0 = none is), whichever is sooner. 0 = nothing is scheduled.
func NextLook(cut bool, again, next time.Duration) time.Duration {
	switch {
	case cut:
		return atOnce
	case again > 0 && (next < 0 || again < next):
		return again
	case next < 0:
		return 0
	}
	return max(next, atOnce)
}
