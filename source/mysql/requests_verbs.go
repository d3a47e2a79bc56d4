package mysql

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
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

	// rewriteParked replaces what a delivery carries.
	rewriteParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.sent_id = ?, p.type = ?, p.topic = ?, p.` + "`key`" + ` = ?, p.payload = ?, p.payload_bytes = ?,
	p.headers = ?, p.fields = ?, p.tenant = ?, p.content_type = ?, p.idempotency_key = ?, p.correlation_id = ?, p.priority = ?,
	p.max_attempts = ?, p.available_at = ?, p.created_at = ?, p.in_table = ?, p.fault_class = ?, p.fault_reason = ?
WHERE ` + whereKeys
)

// effects implement store.Effects by the statements of the transaction of an attempt.
type effects struct{ *attempt }

func (e effects) Record(ctx context.Context, id int64, result *RequestResult, done bool) error {
	b := e.s.batch()
	queueResult(b, id, result, done)
	return e.s.send(ctx, b)
}

func (e effects) InForce(ctx context.Context) (store.Forces, error) { return e.s.inForce(ctx) }

func (e effects) SaveForce(ctx context.Context, id int64, f *store.Force) error {
	return e.s.saveForce(ctx, id, f)
}

func (e effects) Sinks() map[string]bool                { return e.s.sinks }
func (e effects) Hold(lanes store.HeldLanes)            { e.s.held = lanes }
func (e effects) AddLane(lane checkpoint.Lane)          { e.lanes.Add(lane) }
func (e effects) AddMessage(key store.MessageKey)       { e.msgs.Of(key) }
func (e effects) RowWord() string                       { return "row" }
func (e effects) Unfit(*checkpoint.Parked) (why string) { return "" }

// exec runs one of the statements above.
func (e effects) exec(ctx context.Context, sql string, rows []store.SelectedRow, args ...any) error {
	b := e.s.batch()
	e.queueKeys(b, sql, keys(rows), args...)
	return e.s.send(ctx, b)
}

func (e effects) Replay(ctx context.Context, rows []store.SelectedRow) error {
	b := e.s.batch()
	e.s.queueHeadsOf(b, e.lanes.Order, e.was)
	e.queueKeys(b, replayParked, keys(rows))
	return e.s.send(ctx, b)
}

func (e effects) Drop(ctx context.Context, rows []store.SelectedRow, why string) error {
	return e.exec(ctx, dropParked, rows, why)
}

func (e effects) Skip(ctx context.Context, rows []store.SelectedRow) error {
	e.superseded = append(e.superseded, store.Retried(rows)...)
	return e.exec(ctx, skipParked, rows)
}

func (e effects) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]checkpoint.Key, error) {
	found := make(map[checkpoint.Lane]*laneHead, len(lanes))
	b := e.s.batch()
	e.s.queueHeadsOf(b, lanes, found)
	if err := e.s.send(ctx, b); err != nil {
		return nil, err
	}
	heads := make(map[checkpoint.Lane]checkpoint.Key, len(found))
	for lane, head := range found {
		heads[lane] = head.key
	}
	return heads, nil
}

func (e effects) ReadPending(ctx context.Context, rows []store.SelectedRow) (store.Present, error) {
	fresh := make(store.Present)
	for _, t := range e.s.tables.order {
		ids := store.IDsOf(rows, t.String())
		if len(ids) == 0 {
			continue
		}
		found, err := e.s.readRows(ctx, t, ids, t.pending())
		if err != nil {
			return nil, err
		}
		fresh.Add(t.String(), found)
	}
	return fresh, nil
}

func (e effects) ReadParked(ctx context.Context, rows []store.SelectedRow) (map[store.ParkedKey]*checkpoint.Parked, error) {
	out := make(map[store.ParkedKey]*checkpoint.Parked, len(rows))
	if err := e.s.readKeys(ctx, keys(rows), func(d checkpoint.Parked, _ row) error {
		out[store.KeyOf(&d)] = &d
		return nil
	}); err != nil {
		return nil, e.s.fault("read deliveries", err)
	}
	return out, nil
}

func (e effects) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	b := e.s.batch()
	for i := range changed {
		e.queueRewrite(b, changed[i].Parked)
	}
	return e.s.send(ctx, b)
}

func (e effects) queueRewrite(b *batch, d *checkpoint.Parked) {
	m := d.Message
	sent, class, reason := "", "", ""
	if d.Original != "" {
		sent = m.ID
	}
	if m.Fault != nil {
		class, reason = m.Fault.Class, store.ErrorText(m.Fault.Reason)
	}
	c := e.s.portion(m, true, d.InTable)
	b.exec(rewriteParked, binOrNull(sent), bin(m.Type), bin(m.Topic), m.Key, c.first, len(c.first)+len(c.rest), c.headers, c.fields,
		binOrNull(m.Tenant), binOrNull(c.contentType), binOrNull(c.idempotencyKey), binOrNull(c.correlationID),
		m.Priority, m.MaxAttempts, m.AvailableAt, m.CreatedAt, c.inTable, orNull(class), orNull(reason),
		e.s.cfg.Pipeline, list{d.RowID()}, bin(m.Table), d.Sink)
	e.queueRest(b, d.Key(), c.rest)
}

// keys are the deliveries as keys.
func keys(rows []store.SelectedRow) []checkpoint.Key {
	out := make([]checkpoint.Key, len(rows))
	for i := range rows {
		out[i] = checkpoint.Key{Sink: rows[i].Sink, Table: rows[i].Table, ID: rows[i].ID}
	}
	return out
}
