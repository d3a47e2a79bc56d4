package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// Leave leaves the row of a message as it is, for a Finisher to deal with. The outcomes of the message become durable all the same, so nothing is
// delivered twice. It returns false if nothing of the message is parked: then there is no place to record that the row was left.
func (m *Message) Leave() bool {
	m.Locked = len(m.Live)+len(m.Over) > 0
	return m.Locked
}

const (
	// refusedRest is how long rows that the database refuses to change are left alone.
	refusedRest = 10 * time.Second
	// refusedEvery is how often they are logged.
	refusedEvery = time.Minute
	// refusedMost bounds the search for single refused rows. Once Finish has found so many, all rows that are left count as refused.
	refusedMost = 8
)

// A Finisher deals with message rows that could not be changed before, because an application had them locked or the database refused the change.
type Finisher struct {
	// Settle deals with the rows of these messages, in one transaction.
	Settle func(context.Context, []MessageKey) error
	Logger *slog.Logger

	rest, logged time.Time
}

// Rests reports whether rows were refused a moment ago.
func (f *Finisher) Rests() bool { return time.Now().Before(f.rest) }

// Finish deals with the rows. One that the database refuses to change does not keep the others from being changed: it is logged, and has to
// be tried again later, which Finish reports as left.
func (f *Finisher) Finish(ctx context.Context, keys []MessageKey) (left bool, err error) {
	var refused []MessageKey
	var why error
	for todo := [][]MessageKey{keys}; len(todo) > 0; {
		part := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if len(refused) >= refusedMost {
			refused = append(refused, part...)
			continue
		}
		err := f.Settle(ctx, part)
		switch {
		case err == nil:
		case !errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrNoTable):
			return false, err
		case len(part) > 1:
			todo = append(todo, part[:len(part)/2], part[len(part)/2:])
		default:
			refused, why = append(refused, part...), err
		}
	}
	if len(refused) == 0 {
		return false, nil
	}
	f.rest = time.Now().Add(refusedRest)
	if f.Logger != nil && time.Since(f.logged) >= refusedEvery {
		f.logged = time.Now()
		var ids []string
		for _, k := range refused[:min(len(refused), IDsLogged)] {
			ids = append(ids, outbox.Shorten(k.ID))
		}
		f.Logger.Error("the database refuses to change rows: what became of their messages is in tailbox_parked, and the rows are tried again",
			"rows", len(refused), "table", refused[0].Table, "ids", strings.Join(ids, " "), "error", ErrorText(strings.TrimPrefix(why.Error(), source.ErrStop.Error()+": ")))
	}
	return true, nil
}

// IDsLogged is the most ids of rows that one line of the log names.
const IDsLogged = 10
