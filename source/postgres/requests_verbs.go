package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sqlstore"
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
UPDATE {parked} p SET state = 'waiting', blocks = NOT p.alone, attempts = 0, replays = p.replays + 1, last_error = NULL,
	error_class = NULL, next_attempt_at = CASE WHEN p.alone THEN now() END, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	dropParked = `
UPDATE {parked} p SET state = 'dropped', blocks = false, next_attempt_at = NULL, error_class = 'dropped', last_error = $5, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	skipParked = `
UPDATE {parked} p SET blocks = false
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	// rewriteParked replaces what a delivery carries.
	rewriteParked = `
UPDATE {parked} SET sent_id = nullif($5, ''), type = $6, topic = $7, key = $8, payload = $9, headers = $10::json, fields = $11::json,
	tenant = nullif($12, ''), content_type = nullif($13, ''), idempotency_key = nullif($14, ''), correlation_id = nullif($15, ''),
	priority = $16, max_attempts = $17, available_at = $18, created_at = $19, in_table = $20, fault_class = nullif($21, ''),
	fault_reason = nullif($22, '')
WHERE pipeline = $1 AND message_id = $4 AND source_table = $3 AND sink = $2`
)

// exec runs one of the statements above.
func (p *part) exec(ctx context.Context, sql string, rows []sqlstore.SelectedRow, further ...any) error {
	if len(rows) == 0 {
		return nil
	}
	sinks, tables, ids := keys(rows)
	_, err := p.s.conn.Exec(ctx, p.s.q(sql), append([]any{p.s.cfg.Pipeline, sinks, tables, ids}, further...)...)
	return err
}

// replay makes deliveries wait for their turn again, with no attempt spent. What its group has passed comes out of order,
// which the operator has to allow.
func (p *part) replay(ctx context.Context, rows []sqlstore.SelectedRow) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r sqlstore.SelectedRow) bool {
		passed := r.State == checkpoint.StateDead && !r.Blocks && !r.Alone && !p.request.Selection.AllowReorder
		if passed {
			p.result.Refuse("the group has gone on: replay it with --allow-reorder, and it is delivered out of order")
		}
		return passed
	})
	if p.request.Selection.Refresh {
		var err error
		if rows, err = p.refresh(ctx, rows); err != nil {
			return err
		}
	}
	return p.again(ctx, rows)
}

// again is the part that replay and edit share.
func (p *part) again(ctx context.Context, rows []sqlstore.SelectedRow) error {
	p.touch(rows)
	lanes := p.attempt.lanes.Order
	sinks, groups := make([]string, len(lanes)), make([]string, len(lanes))
	for i, lane := range lanes {
		sinks[i], groups[i] = lane.Sink, lane.Group
	}
	if _, err := p.s.conn.Exec(ctx, p.s.q(loseTime), p.s.cfg.Pipeline, sinks, groups); err != nil {
		return err
	}
	p.changed += len(rows)
	return p.exec(ctx, replayParked, rows)
}

// drop gives deliveries up. They stay, not blocking, until their whole message is settled, so that a sweep leaves them out.
func (p *part) drop(ctx context.Context, rows []sqlstore.SelectedRow) error {
	p.touch(rows)
	p.changed += len(rows)
	why := "dropped"
	if p.request.Reason != "" {
		why += ": " + p.request.Reason
	}
	return p.exec(ctx, dropParked, rows, sqlstore.ErrorText(why))
}

// skip lets groups go on past their dead deliveries, which stay dead.
func (p *part) skip(ctx context.Context, rows []sqlstore.SelectedRow) error {
	p.touch(rows)
	p.changed += len(rows)
	return p.exec(ctx, skipParked, rows)
}

// refresh puts what the rows of the user's table say now in the place of what was copied. Rows that are not pending (any
// more) are refused.
func (p *part) refresh(ctx context.Context, rows []sqlstore.SelectedRow) ([]sqlstore.SelectedRow, error) {
	old, err := p.read(ctx, rows)
	if err != nil {
		return nil, err
	}
	fresh := make(map[sqlstore.MessageKey]*outbox.Message)
	for _, t := range p.s.tables.order {
		var ids []string
		for i := range rows {
			if rows[i].Table == t.String() {
				ids = append(ids, rows[i].ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		found, err := p.s.readByID(ctx, t, ids, t.pending("t."))
		if err != nil {
			return nil, err
		}
		for id, m := range found {
			fresh[sqlstore.MessageKey{Table: t.String(), ID: id}] = m
		}
	}
	b := &pgx.Batch{}
	var kept []sqlstore.SelectedRow
	for i := range rows {
		m, parked := fresh[sqlstore.MessageKey{Table: rows[i].Table, ID: rows[i].ID}], old[rows[i].ParkedKey]
		if m == nil || parked == nil {
			p.result.Refuse("the row is not pending any more")
			continue
		}
		parked.Message = sqlstore.WithPresentContent(parked.Message, m)
		parked.InTable = m.Fault != nil
		p.queueRewrite(b, parked)
		kept = append(kept, rows[i])
	}
	return kept, p.s.send(ctx, b)
}

// edit changes what deliveries carry, gives them a new id, and replays them. The row's own id stays their identity here.
func (p *part) edit(ctx context.Context, rows []sqlstore.SelectedRow) error {
	old, err := p.read(ctx, rows)
	if err != nil {
		return err
	}
	if p.result.NewID == "" {
		if p.result.NewID = p.request.Selection.Edit.NewID; p.result.NewID == "" {
			p.result.NewID = sqlstore.NewUUID()
		}
	}
	b := &pgx.Batch{}
	var kept []sqlstore.SelectedRow
	for i := range rows {
		parked := old[rows[i].ParkedKey]
		passed := !rows[i].Blocks && !rows[i].Alone && !p.request.Selection.AllowReorder
		switch {
		case parked == nil:
			continue
		case passed:
			p.result.Refuse("the group has gone on: edit it with --allow-reorder, and it is delivered out of order")
			continue
		case parked.InTable && p.request.Selection.Edit.Payload == nil:
			p.result.Refuse("the message was not copied as a whole: give the edit a payload, or mend the row and replay it")
			continue
		}
		parked.Original = parked.RowID()
		parked.Message = sqlstore.Edited(parked.Message, p.request.Selection.Edit)
		parked.Message.ID, parked.InTable = p.result.NewID, false
		p.queueRewrite(b, parked)
		kept = append(kept, rows[i])
	}
	if err := p.s.send(ctx, b); err != nil {
		return err
	}
	return p.again(ctx, kept)
}

// read reads whole deliveries.
func (p *part) read(ctx context.Context, rows []sqlstore.SelectedRow) (map[sqlstore.ParkedKey]*checkpoint.Parked, error) {
	sinks, tables, ids := keys(rows)
	found, err := p.s.conn.Query(ctx, p.s.q(`SELECT `+parkedColumns+` FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)
		CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table
			AND q.sink = v.sink OFFSET 0) p`),
		p.s.cfg.Pipeline, sinks, tables, ids)
	if err != nil {
		return nil, p.s.fault("read deliveries", err)
	}
	ps, err := collectParked(found)
	if err != nil {
		return nil, p.s.fault("read deliveries", err)
	}
	out := make(map[sqlstore.ParkedKey]*checkpoint.Parked, len(ps))
	for i := range ps {
		out[sqlstore.KeyOf(&ps[i])] = &ps[i]
	}
	return out, nil
}

func (p *part) queueRewrite(b *pgx.Batch, d *checkpoint.Parked) {
	m := d.Message
	sent, class, reason := "", "", ""
	if d.Original != "" {
		sent = m.ID
	}
	if m.Fault != nil {
		class, reason = m.Fault.Class, sqlstore.ErrorText(m.Fault.Reason)
	}
	b.Queue(p.s.q(rewriteParked), p.s.cfg.Pipeline, d.Sink, m.Table, d.RowID(), sent, m.Type, m.Topic, m.Key, m.Payload,
		sqlstore.HeadersJSON(m.Headers), sqlstore.FieldsJSON(m.Fields), m.Tenant, m.ContentType, m.IdempotencyKey, m.CorrelationID, m.Priority,
		m.MaxAttempts, timestamp(m.AvailableAt), timestamp(m.CreatedAt), d.InTable, class, reason)
}
