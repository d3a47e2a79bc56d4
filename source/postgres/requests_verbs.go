package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// loseTime takes the time from the first deliveries of lanes: a replayed one may come before them.
	loseTime = `
UPDATE {parked} p SET next_attempt_at = NULL
FROM unnest($2::text[], $3::text[]) AS l (sink, message_group) CROSS JOIN LATERAL (
	SELECT q.ctid, q.next_attempt_at FROM {parked} q
	WHERE q.pipeline = $1 AND q.sink = l.sink AND q.message_group = l.message_group AND q.blocks ORDER BY q.position LIMIT 1) h
WHERE p.ctid = h.ctid AND h.next_attempt_at IS NOT NULL`

	replayParked = `
UPDATE {parked} p SET state = 'waiting', blocks = NOT p.alone, attempts = 0, tries = 0, failed_epoch = 0, failed_call = 0, tried_at = NULL,
	replays = p.replays + 1, last_error = NULL, error_class = NULL, next_attempt_at = CASE WHEN p.alone THEN now() END, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	dropParked = `
UPDATE {parked} p SET state = 'dropped', blocks = false, next_attempt_at = NULL, error_class = 'dropped', last_error = $5, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	skipParked = `
UPDATE {parked} p SET blocks = false, state = 'dead', next_attempt_at = NULL, changed_at = CASE p.state WHEN 'dead' THEN p.changed_at ELSE now() END
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	// firstOfLanes are the first blocking deliveries of lanes.
	firstOfLanes = `
SELECT l.sink, l.message_group, h.source_table, h.message_id
FROM unnest($2::text[], $3::text[]) AS l (sink, message_group) CROSS JOIN LATERAL (
	SELECT p.source_table, p.message_id FROM {parked} p
	WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group AND p.blocks ORDER BY p.position LIMIT 1) h`

	// rewriteParked replaces what a delivery carries.
	rewriteParked = `
UPDATE {parked} SET sent_id = nullif($5, ''), type = $6, topic = $7, key = $8, payload = $9, headers = $10::json, fields = $11::json,
	tenant = nullif($12, ''), content_type = nullif($13, ''), idempotency_key = nullif($14, ''), correlation_id = nullif($15, ''),
	priority = $16, max_attempts = $17, available_at = $18, created_at = $19, in_table = $20, fault_class = nullif($21, ''),
	fault_reason = nullif($22, '')
WHERE pipeline = $1 AND message_id = $4 AND source_table = $3 AND sink = $2`
)

// effects implement store.Effects by the statements of the transaction of an attempt.
type effects struct{ *attempt }

func (e effects) Record(ctx context.Context, id int64, result *RequestResult, done bool) error {
	return e.s.noteResult(ctx, id, result, done)
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
func (e effects) exec(ctx context.Context, sql string, rows []store.SelectedRow, further ...any) error {
	if len(rows) == 0 {
		return nil
	}
	sinks, tables, ids := keys(rows)
	_, err := e.s.conn.Exec(ctx, e.s.q(sql), append([]any{e.s.cfg.Pipeline, sinks, tables, ids}, further...)...)
	return err
}

func (e effects) Replay(ctx context.Context, rows []store.SelectedRow) error {
	lanes := e.lanes.Order
	sinks, groups := make([]string, len(lanes)), make([]string, len(lanes))
	for i, lane := range lanes {
		sinks[i], groups[i] = lane.Sink, lane.Group
	}
	if _, err := e.s.conn.Exec(ctx, e.s.q(loseTime), e.s.cfg.Pipeline, sinks, groups); err != nil {
		return err
	}
	return e.exec(ctx, replayParked, rows)
}

func (e effects) Drop(ctx context.Context, rows []store.SelectedRow, why string) error {
	return e.exec(ctx, dropParked, rows, e.s.encoding.fit(why))
}

func (e effects) Skip(ctx context.Context, rows []store.SelectedRow) error {
	e.superseded = append(e.superseded, store.Retried(rows)...)
	return e.exec(ctx, skipParked, rows)
}

func (e effects) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]checkpoint.Key, error) {
	sinks, groups := make([]string, len(lanes)), make([]string, len(lanes))
	for i, lane := range lanes {
		sinks[i], groups[i] = lane.Sink, lane.Group
	}
	rows, err := e.s.conn.Query(ctx, e.s.q(firstOfLanes), e.s.cfg.Pipeline, sinks, groups)
	if err != nil {
		return nil, err
	}
	heads := make(map[checkpoint.Lane]checkpoint.Key, len(lanes))
	var lane checkpoint.Lane
	var key checkpoint.Key
	_, err = pgx.ForEachRow(rows, []any{&lane.Sink, &lane.Group, &key.Table, &key.ID}, func() error {
		key.Sink = lane.Sink
		heads[lane] = key
		return nil
	})
	return heads, err
}

func (e effects) ReadPending(ctx context.Context, rows []store.SelectedRow) (store.Present, error) {
	fresh := make(store.Present)
	for _, t := range e.s.tables.order {
		ids := store.IDsOf(rows, t.String())
		if len(ids) == 0 {
			continue
		}
		found, err := e.s.readRows(ctx, t, ids, t.pending("t."))
		if err != nil {
			return nil, err
		}
		fresh.Add(t.String(), found)
	}
	return fresh, nil
}

func (e effects) ReadParked(ctx context.Context, rows []store.SelectedRow) (map[store.ParkedKey]*checkpoint.Parked, error) {
	sinks, tables, ids := keys(rows)
	found, err := e.s.conn.Query(ctx, e.s.q(`SELECT `+parkedColumns+` FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)
		CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table
			AND q.sink = v.sink OFFSET 0) p`),
		e.s.cfg.Pipeline, sinks, tables, ids)
	if err != nil {
		return nil, e.s.fault("read deliveries", err)
	}
	ps, err := collectParked(found)
	if err != nil {
		return nil, e.s.fault("read deliveries", err)
	}
	out := make(map[store.ParkedKey]*checkpoint.Parked, len(ps))
	for i := range ps {
		out[store.KeyOf(&ps[i])] = &ps[i]
	}
	return out, nil
}

func (e effects) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	b := &pgx.Batch{}
	for i := range changed {
		e.queueRewrite(b, changed[i].Parked)
	}
	return e.s.send(ctx, b)
}

func (e effects) queueRewrite(b *pgx.Batch, d *checkpoint.Parked) {
	m := d.Message
	sent, class, reason := "", "", ""
	if d.Original != "" {
		sent = m.ID
	}
	if m.Fault != nil {
		class, reason = m.Fault.Class, e.s.encoding.fit(store.ErrorText(m.Fault.Reason))
	}
	b.Queue(e.s.q(rewriteParked), e.s.cfg.Pipeline, d.Sink, m.Table, d.RowID(), sent, m.Type, m.Topic, m.Key, m.Payload,
		e.s.encoding.fitJSON(store.HeadersJSON(m.Headers)), e.s.encoding.fitJSON(store.FieldsJSON(m)), m.Tenant, m.ContentType,
		m.IdempotencyKey, m.CorrelationID, m.Priority, m.MaxAttempts, timestamp(m.AvailableAt), timestamp(m.CreatedAt), d.InTable, class, reason)
}

// keys are the deliveries as parameters.
func keys(rows []store.SelectedRow) (sinks, tables, ids []string) {
	for i := range rows {
		sinks, tables, ids = append(sinks, rows[i].Sink), append(tables, rows[i].Table), append(ids, rows[i].ID)
	}
	return sinks, tables, ids
}
