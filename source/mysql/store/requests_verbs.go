package store

import (
	"context"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// What verbs do to deliveries. The assignments are made in this order.
const (
	replayParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'waiting', p.blocks = NOT p.alone, p.attempts = 0, p.tries = 0, p.failed_epoch = 0,
	p.failed_call = 0, p.tried_at = NULL, p.replays = p.replays + 1,
	p.last_error = NULL, p.error_class = NULL, p.next_attempt_at = IF(p.alone, UTC_TIMESTAMP(6), NULL), p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	dropParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'dropped', p.blocks = 0, p.next_attempt_at = NULL, p.error_class = 'dropped',
	p.last_error = ?, p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	skipParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.changed_at = IF(p.state = 'dead', p.changed_at, UTC_TIMESTAMP(6)), p.state = 'dead', p.blocks = 0,
	p.next_attempt_at = NULL
WHERE ` + whereKeys
)

// rewriteParked replaces what a delivery carries.
func rewriteParked() string {
	return "UPDATE {parked} p FORCE INDEX (PRIMARY) SET " +
		strings.ReplaceAll(columnNames(rewritten(new(store.ParkedRow)), "p."), ",", " = ?,") + " = ?, p.payload_bytes = ? WHERE " + whereKeys
}

// rewritten are the columns that rewriteParked replaces.
func rewritten(row *store.ParkedRow) []store.Column {
	return slices.DeleteFunc(row.Columns(), func(c store.Column) bool { return c.Part == store.State })
}

// effects implement store.Effects by the statements of the transaction of an attempt.
type effects struct{ *attempt }

func (e effects) Record(ctx context.Context, id int64, result *store.RequestResult, done bool) error {
	b := e.s.Batch()
	queueResult(b, id, result, done)
	return e.s.Send(ctx, b)
}

func (e effects) InForce(ctx context.Context) (store.Forces, error) { return e.s.InForce(ctx) }

func (e effects) SaveForce(ctx context.Context, id int64, f *store.Force) error {
	return e.s.saveForce(ctx, id, f)
}

func (e effects) Scope() (*store.Attempt, *store.Memory) { return &e.Attempt.Attempt, &e.s.Memory }

func (e effects) AddMessage(key store.MessageKey) { e.Messages.Of(key) }

func (e effects) RowWord() string { return "row" }

func (e effects) Unfit(*checkpoint.Parked) (why string) { return "" }

// exec runs one of the statements above.
func (e effects) exec(ctx context.Context, sql string, rows []store.SelectedRow, args ...any) error {
	b := e.s.Batch()
	e.queueKeys(b, sql, KeysOf(rows), args...)
	return e.s.Send(ctx, b)
}

func (e effects) Replay(ctx context.Context, rows []store.SelectedRow) error {
	return e.exec(ctx, replayParked, rows)
}

func (e effects) Drop(ctx context.Context, rows []store.SelectedRow, why string) error {
	return e.exec(ctx, dropParked, rows, why)
}

func (e effects) Skip(ctx context.Context, rows []store.SelectedRow) error {
	return e.exec(ctx, skipParked, rows)
}

func (e effects) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	heads := make(map[checkpoint.Lane]*store.LaneHead, len(lanes))
	b := e.s.Batch()
	e.s.QueueHeadsOf(b, lanes, heads)
	return heads, e.s.Send(ctx, b)
}

func (e effects) ReadPending(ctx context.Context, rows []store.SelectedRow) (store.Present, error) {
	fresh := make(store.Present)
	for _, t := range e.s.tables.Order {
		ids := store.IDsOf(rows, t.String())
		if len(ids) == 0 {
			continue
		}
		found, err := t.Read(ctx, e.s.Session, ids, t.Pending())
		if err != nil {
			return nil, err
		}
		fresh.Add(t.String(), found)
	}
	return fresh, nil
}

func (e effects) ReadParked(ctx context.Context, rows []store.SelectedRow) (map[store.ParkedKey]*checkpoint.Parked, error) {
	ps, err := e.s.readKeys(ctx, KeysOf(rows))
	if err != nil {
		return nil, server.Fault("read deliveries", err)
	}
	out := make(map[store.ParkedKey]*checkpoint.Parked, len(ps))
	for i := range ps {
		out[store.KeyOf(&ps[i])] = &ps[i]
	}
	return out, nil
}

func (e effects) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	b := e.s.Batch()
	for i := range changed {
		e.queueRewrite(b, changed[i].Parked)
	}
	return e.s.Send(ctx, b)
}

func (e effects) queueRewrite(b *session.Batch, p *checkpoint.Parked) {
	var row store.ParkedRow
	row.Carry(p)
	rest := e.s.fit(&row)
	b.Exec(rewriteParked(), append(appendValues(nil, rewritten(&row)), len(row.Content.Payload)+len(rest),
		e.s.Config.Pipeline, quote.List{p.RowID()}, quote.Bin(p.Message.Table), p.Sink)...)
	e.queueRest(b, p.Key(), rest)
}

// KeysOf are the keys of deliveries.
func KeysOf(rows []store.SelectedRow) []checkpoint.Key {
	out := make([]checkpoint.Key, len(rows))
	for i := range rows {
		out[i] = checkpoint.Key{Sink: rows[i].Sink, Table: rows[i].Table, ID: rows[i].ID}
	}
	return out
}
