package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// lookupParked reads what is parked of messages.
const lookupParked = `
SELECT v.n - 1, p.state, p.attempts, p.next_attempt_at, coalesce(p.last_error, ''), p.in_table, p.row_settled, p.sink, p.message_group
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS v (source_table, message_id, n) CROSS JOIN LATERAL (SELECT * FROM {parked} q
	WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table OFFSET 0) p`

// queueLookup adds lookupParked for all messages collected so far.
func (a *attempt) queueLookup(b *pgx.Batch) {
	if len(a.Messages.Order) == 0 {
		return
	}
	tables, ids := store.Keys(a.Messages.Order)
	order := a.Messages.Order
	b.Queue(a.s.SQL(lookupParked), a.s.Cfg.Pipeline, tables, ids).Query(func(rows pgx.Rows) error {
		var n int64
		var group string
		var v store.ParkedView
		_, err := pgx.ForEachRow(rows, []any{&n, &v.State, &v.Attempts, &v.Next, &v.LastError, &v.InTable, &v.RowSettled, &v.Sink, &group}, func() error {
			key := order[n].Key
			if at, ok := a.Lanes.Next(checkpoint.Lane{Sink: v.Sink, Group: group}, checkpoint.Key{Sink: v.Sink, Table: key.Table, ID: key.ID}, a.now); ok {
				v.Next = &at
			}
			order[n].See(v)
			return nil
		})
		return err
	})
}

// queueMessages deals with the rows of messages.
func (a *attempt) queueMessages(ctx context.Context) error {
	rows, b := &pgx.Batch{}, &pgx.Batch{}
	if err := a.queueRows(rows, a.MessageRows(a.s.Tables(), a.snap.visible)); err != nil {
		return err
	}
	a.queueTouching(b, rows)
	return a.s.send(ctx, b)
}

// Statements that follow from what was found out about the rows.
const (
	removeOver = `
DELETE FROM {parked} p USING unnest($2::text[], $3::text[]) AS v (source_table, message_id)` + parkedOf + `WHERE p.ctid = at.ctid AND p.state IN ('dropped', 'delivered')`
	removeKept = `
DELETE FROM {parked} p USING unnest($2::text[], $3::text[]) AS v (source_table, message_id)` + parkedOf + `WHERE p.ctid = at.ctid AND p.state = 'delivered'`
	noteUnfinished = `
UPDATE {parked} p SET unfinished = v.unfinished FROM unnest($2::text[], $3::text[], $4::bool[]) AS v (source_table, message_id, unfinished)` +
		parkedOf + `WHERE p.ctid = at.ctid AND p.unfinished <> v.unfinished`
	noteRowSettled = `
UPDATE {parked} p SET row_settled = v.settled FROM unnest($2::text[], $3::text[], $4::bool[]) AS v (source_table, message_id, settled)` +
		parkedOf + `WHERE p.ctid = at.ctid AND p.row_settled <> v.settled`
)

// queueCleanup removes deliveries that are over, and notes what is still to be done about rows.
func (a *attempt) queueCleanup(b *pgx.Batch) {
	c := a.s.Cleanup(a.Attempt)
	queue := func(sql string, ms []*store.Message, further ...any) {
		if len(ms) == 0 {
			return
		}
		tables, ids := store.Keys(ms)
		b.Queue(a.s.SQL(sql), append([]any{a.s.Cfg.Pipeline, tables, ids}, further...)...)
	}
	queue(noteUnfinished, c.Unfinished, c.UnfinishedWant)
	queue(removeOver, c.Over)
	queue(removeKept, c.Kept)
	queue(noteRowSettled, c.Settled, c.SettledWant)
}
