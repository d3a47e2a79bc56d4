package store

import (
	"context"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// removeDelivered deletes delivered deliveries. keepDelivered is what happens to them instead where rows may be locked:
	// should this message's row be, the delivery is what remembers that it has still to be dealt with.
	removeDelivered = "DELETE p FROM {parked} p FORCE INDEX (PRIMARY) WHERE " + whereKeys
	keepDelivered   = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'delivered', p.blocks = 0, p.next_attempt_at = NULL, p.attempts = p.attempts + 1,
	p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	// alterParked gives a delivery its new state. Of those that block, only the first of a lane has a time. If it is not known yet
	// which one that is, the time is set later. One that an operator dropped while an attempt of it was under way stays dropped. The assignments are made in
	// this order.
	alterParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = ?, p.blocks = ? AND NOT p.alone, p.attempts = ?, p.last_error = ?, p.error_class = ?,
	p.tried_at = IF(p.tries = ?, p.tried_at, ?), p.tries = ?, p.failed_epoch = ?, p.failed_call = ?,
	p.changed_at = UTC_TIMESTAMP(6), p.next_attempt_at = IF(p.blocks, ?, ?)
WHERE ` + whereKeys + ` AND p.state <> 'dropped'`

	// superseded are all but the newest of a lane's blocking deliveries.
	superseded = `
SELECT p.source_table, p.message_id FROM {parked} p FORCE INDEX (tailbox_parked_lane)
WHERE p.pipeline = ? AND p.blocks = 1 AND p.sink = ? AND p.message_group = ? AND p.position < (
	SELECT MAX(q.position) FROM {parked} q FORCE INDEX (tailbox_parked_lane)
	WHERE q.pipeline = ? AND q.blocks = 1 AND q.sink = ? AND q.message_group = ?)`

	// supersede makes them dead.
	supersede = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'dead', p.blocks = 0, p.next_attempt_at = NULL, p.error_class = 'superseded',
	p.last_error = 'superseded by a later message of its group', p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys
)

// queueChanges adds the changes to a batch. Of several for one delivery the last one counts.
func (a *attempt) queueChanges(ctx context.Context, b *session.Batch) error {
	var delivered []checkpoint.Key
	for _, c := range store.LastChanges(a.In.Changes) {
		before := a.known[c.Key]
		a.Change(c, before != nil && before.alone)
		if !c.Delivered {
			a.Altered = append(a.Altered, c)
			continue
		}
		delivered = append(delivered, c.Key)
		if before != nil {
			m := a.Messages.Of(store.KeyOfMessage(c.Key))
			m.Attempts = max(m.Attempts, before.attempts+1)
			m.Settled = m.Settled || before.rowSettled
		}
	}
	sql := removeDelivered
	if a.SkipLocked {
		sql = keepDelivered
	}
	a.s.queueKeys(b, sql, delivered)
	for _, c := range a.Altered {
		a.queueAltered(b, c)
	}
	return a.supersede(ctx, b)
}

// queueKeys adds a statement about deliveries.
func (s *Store) queueKeys(b *session.Batch, sql string, keys []checkpoint.Key, args ...any) {
	for _, l := range lookups(len(keys), func(i int) checkpoint.Key { return keys[i] }) {
		b.Exec(sql, append(args[:len(args):len(args)], s.Config.Pipeline, l.ids, quote.Bin(l.table), l.sink)...)
	}
}

func (a *attempt) queueAltered(b *session.Batch, c *checkpoint.Change) {
	before, lane := a.known[c.Key], store.LaneOf(c)
	var next, ofHead time.Time
	if store.Timed(c.Due, c.State) {
		next = a.now.Add(c.NextAttempt)
		if c.Blocks && before != nil && !before.alone {
			a.Lanes.Want(c.Key, c.NextAttempt)
		}
	}
	if c.Blocks && before != nil && before.head && !c.Supersede && a.changes[lane] == 1 && a.parks[lane] == 0 && a.Request == nil {
		ofHead = a.foundHead(lane, c.Key, before.place.Position, c.State, c.Due, c.NextAttempt)
	}
	var tried time.Time
	if c.Tries > 0 {
		tried = *a.now
	}
	b.Exec(alterParked, string(c.State), c.Blocks, c.Attempts, quote.OrNull(store.ErrorText(c.LastError)), quote.OrNull(c.ErrorClass),
		c.Tries, tried, c.Tries, c.Failed.Epoch, c.Failed.Call, ofHead, next,
		a.s.Config.Pipeline, quote.List{c.Key.ID}, quote.Bin(c.Key.Table), c.Key.Sink)
}

// supersede makes all but the newest of lanes dead, where a change asks for it.
func (a *attempt) supersede(ctx context.Context, b *session.Batch) error {
	lanes := store.Superseding(a.Altered)
	if len(lanes.Order) == 0 {
		return nil
	}
	var keys []checkpoint.Key
	p := a.s.Config.Pipeline
	for _, lane := range lanes.Order {
		b.Each(func(r session.Row) error {
			keys = append(keys, checkpoint.Key{Sink: lane.Sink, Table: r.Text(0), ID: r.Text(1)})
			return nil
		}, superseded, p, lane.Sink, quote.Bin(lane.Group), p, lane.Sink, quote.Bin(lane.Group))
	}
	if err := a.s.Send(ctx, b); err != nil {
		return err
	}
	a.s.queueKeys(b, supersede, keys)
	a.Superseded = append(a.Superseded, keys...)
	for _, k := range keys {
		a.Messages.Of(store.KeyOfMessage(k))
	}
	return nil
}
