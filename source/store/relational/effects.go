package relational

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// Statements are those by which requests take effect. They run in the transaction that is open.
type Statements interface {
	// Record, SaveForce, Heads and Rewrite are those of store.Effects.
	Record(ctx context.Context, id int64, result *store.RequestResult, done bool) error
	SaveForce(ctx context.Context, id int64, f *store.Force) error
	Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error)
	Rewrite(ctx context.Context, changed []store.Rewritten) error
	// EachForce reads what requests have in force, by their ids.
	EachForce(ctx context.Context, on func(id int64, text string) error) error
	// Alter gives deliveries the state that a replay, a drop or a skip gives them. For a drop, it stores why with each of them.
	Alter(ctx context.Context, verb checkpoint.Verb, keys []checkpoint.Key, why string) error
	// ReadKeys reads deliveries, in no order.
	ReadKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error)
	// ReadRows reads rows of a table as messages: all, or those that are pending. A table that left the configuration has none.
	ReadRows(ctx context.Context, table string, ids []string, pending bool) ([]*outbox.Message, error)
}

// effects implement store.Effects inside the transaction of an attempt.
type effects struct {
	Statements
	core    *Core
	attempt *Attempt
}

func (e effects) InForce(ctx context.Context) (store.Forces, error) { return e.core.InForce(ctx) }

func (e effects) Scope() (*store.Attempt, *store.Memory) { return &e.attempt.Attempt, &e.core.Memory }

func (e effects) AddMessage(key store.MessageKey) { e.attempt.Messages.Of(key) }

func (e effects) RowWord() string { return "row" }

func (e effects) Unsupported(*checkpoint.Parked) (why string) { return "" }

func (e effects) Replay(ctx context.Context, rows []store.SelectedRow) error {
	return e.Alter(ctx, checkpoint.VerbReplay, store.KeysOf(rows), "")
}

func (e effects) Drop(ctx context.Context, rows []store.SelectedRow, why string) error {
	return e.Alter(ctx, checkpoint.VerbDrop, store.KeysOf(rows), why)
}

func (e effects) Skip(ctx context.Context, rows []store.SelectedRow) error {
	return e.Alter(ctx, checkpoint.VerbSkip, store.KeysOf(rows), "")
}

func (e effects) ReadParked(ctx context.Context, rows []store.SelectedRow) (map[store.ParkedKey]*checkpoint.Parked, error) {
	ps, err := e.ReadKeys(ctx, store.KeysOf(rows))
	if err != nil {
		return nil, err
	}
	out := make(map[store.ParkedKey]*checkpoint.Parked, len(ps))
	for i := range ps {
		out[store.KeyOf(&ps[i])] = &ps[i]
	}
	return out, nil
}

func (e effects) ReadPending(ctx context.Context, rows []store.SelectedRow) (store.Present, error) {
	fresh := make(store.Present)
	for _, t := range e.core.Configured() {
		ids := store.IDsOf(rows, t.String())
		if len(ids) == 0 {
			continue
		}
		found, err := e.ReadRows(ctx, t.String(), ids, true)
		if err != nil {
			return nil, err
		}
		fresh.Add(t.String(), found)
	}
	return fresh, nil
}
