package mysql

import (
	"context"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// What verbs do to deliveries. The assignments are made in this order.
const (
	replayParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'waiting', p.blocks = NOT p.alone, p.attempts = 0, p.replays = p.replays + 1,
	p.last_error = NULL, p.error_class = NULL, p.next_attempt_at = IF(p.alone, UTC_TIMESTAMP(6), NULL), p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	dropParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'dropped', p.blocks = 0, p.next_attempt_at = NULL, p.error_class = 'dropped',
	p.last_error = ?, p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	skipParked = "UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.blocks = 0 WHERE " + whereKeys

	// rewriteParked replaces what a delivery carries.
	rewriteParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.sent_id = ?, p.type = ?, p.topic = ?, p.` + "`key`" + ` = ?, p.payload = ?, p.payload_bytes = ?,
	p.headers = ?, p.fields = ?, p.tenant = ?, p.content_type = ?, p.idempotency_key = ?, p.correlation_id = ?, p.priority = ?,
	p.max_attempts = ?, p.available_at = ?, p.created_at = ?, p.in_table = ?, p.fault_class = ?, p.fault_reason = ?
WHERE ` + whereKeys
)

// exec runs one of the statements above.
func (p *part) exec(ctx context.Context, sql string, rows []sqlstore.SelectedRow, args ...any) error {
	b := p.s.batch()
	p.queueKeys(b, sql, keys(rows), args...)
	return p.s.send(ctx, b)
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

// again is the part that replay and edit share. What is first in its lane now may not be afterwards.
func (p *part) again(ctx context.Context, rows []sqlstore.SelectedRow) error {
	p.touch(rows)
	b := p.s.batch()
	p.s.queueHeadsOf(b, p.attempt.lanes.Order, p.was)
	p.queueKeys(b, replayParked, keys(rows))
	p.changed += len(rows)
	return p.s.send(ctx, b)
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
		found, err := p.s.readByID(ctx, t, ids, t.pending())
		if err != nil {
			return nil, err
		}
		for id, m := range found {
			fresh[sqlstore.MessageKey{Table: t.String(), ID: id}] = m
		}
	}
	b := p.s.batch()
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
	b := p.s.batch()
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
	out := make(map[sqlstore.ParkedKey]*checkpoint.Parked, len(rows))
	if err := p.s.readKeys(ctx, keys(rows), "", func(d checkpoint.Parked, _ row) error {
		out[sqlstore.KeyOf(&d)] = &d
		return nil
	}); err != nil {
		return nil, p.s.fault("read deliveries", err)
	}
	return out, nil
}

func (p *part) queueRewrite(b *batch, d *checkpoint.Parked) {
	m := d.Message
	sent, class, reason := "", "", ""
	if d.Original != "" {
		sent = m.ID
	}
	if m.Fault != nil {
		class, reason = m.Fault.Class, sqlstore.ErrorText(m.Fault.Reason)
	}
	payload, rest, inTable := p.s.portion(m.Payload, d.InTable)
	b.exec(rewriteParked, binOrNull(sent), bin(m.Type), bin(m.Topic), m.Key, payload, len(payload)+len(rest), sqlstore.HeadersJSON(m.Headers),
		sqlstore.FieldsJSON(m.Fields), binOrNull(m.Tenant), binOrNull(m.ContentType), binOrNull(m.IdempotencyKey), binOrNull(m.CorrelationID),
		m.Priority, m.MaxAttempts, m.AvailableAt, m.CreatedAt, inTable, orNull(class), orNull(reason),
		p.s.cfg.Pipeline, list{d.RowID()}, bin(m.Table), d.Sink)
	p.queueRest(b, d.Key(), rest)
}
