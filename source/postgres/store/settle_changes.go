package store

import (
	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// parkedAt finds deliveries by key, and parkedOf all of a message, for statements that change them ("WHERE p.ctid =
// at.ctid"). Which table to begin with must not be left to the planner: a plan that was made while tailbox_parked was empty
// would read all of it later. OFFSET 0 keeps the subquery apart, and a ctid can only be looked up. Nobody but this session
// changes the table, so a row stays where it is until the statement has come to it.
const (
	parkedAt = ` CROSS JOIN LATERAL (SELECT q.ctid FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id
	AND q.source_table = v.source_table AND q.sink = v.sink OFFSET 0) at
`
	parkedOf = ` CROSS JOIN LATERAL (SELECT q.ctid FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id
	AND q.source_table = v.source_table OFFSET 0) at
`
)

// removeDelivered deletes delivered deliveries.
const removeDelivered = `
DELETE FROM {parked} p USING unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS v (sink, source_table, message_id, n)` +
	parkedAt + `WHERE p.ctid = at.ctid RETURNING v.n - 1, p.alone, p.attempts + 1, p.row_settled`

// keepDelivered marks delivered deliveries instead, if rows may be locked. If the message's row turns out to be locked, the delivery stays and
// records that the row has still to be dealt with.
const keepDelivered = `
UPDATE {parked} p SET state = 'delivered', blocks = false, next_attempt_at = NULL, attempts = p.attempts + 1, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS v (sink, source_table, message_id, n)` + parkedAt + `
WHERE p.ctid = at.ctid RETURNING v.n - 1, p.alone, p.attempts, p.row_settled`

// alterParked gives deliveries their new state. One that blocks its lane gets no time: only the first of a lane has one. One that an operator
// dropped while an attempt of it was under way stays dropped.
const alterParked = `
UPDATE {parked} p SET state = v.state, blocks = v.blocks AND NOT p.alone, attempts = v.attempts, last_error = nullif(v.last_error, ''),
	error_class = nullif(v.error_class, ''), changed_at = now(), tries = v.tries, failed_epoch = v.failed_epoch, failed_call = v.failed_call,
	tried_at = CASE WHEN v.tries = p.tries THEN p.tried_at WHEN v.tries > 0 THEN now() END,
	next_attempt_at = CASE WHEN v.due AND (p.alone OR NOT v.blocks) THEN now() + v.delay * interval '1 microsecond' END
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bool[], $7::int[], $8::bool[], $9::bigint[], $10::text[], $11::text[],
	$12::int[], $13::bigint[], $14::bigint[])
	WITH ORDINALITY AS v (sink, source_table, message_id, state, blocks, attempts, due, delay, last_error, error_class,
	tries, failed_epoch, failed_call, n)` + parkedAt + `
WHERE p.ctid = at.ctid AND p.state <> 'dropped' RETURNING v.n - 1, p.alone`

// supersede makes all but the newest of a lane's blocking deliveries dead.
const supersede = `
UPDATE {parked} p SET state = 'dead', blocks = false, next_attempt_at = NULL, error_class = 'superseded',
	last_error = 'superseded by a later message of its group', changed_at = now()
FROM unnest($2::text[], $3::text[]) AS l (sink, message_group) CROSS JOIN LATERAL (
	SELECT max(q.position) AS newest FROM {parked} q
	WHERE q.pipeline = $1 AND q.sink = l.sink AND q.message_group = l.message_group AND q.blocks) m
CROSS JOIN LATERAL (
	SELECT q.ctid FROM {parked} q WHERE q.pipeline = $1 AND q.sink = l.sink AND q.message_group = l.message_group AND q.blocks
		AND q.position < m.newest OFFSET 0) at
WHERE p.ctid = at.ctid
RETURNING p.source_table, p.message_id, p.sink`

// queueChanges adds the changes to a batch. Of several for one delivery the last one counts.
func (a *attempt) queueChanges(b *pgx.Batch) {
	var removed, kept []*checkpoint.Change
	for _, c := range store.LastChanges(a.In.Changes) {
		a.Change(c, false) // not alone, until a statement finds that the delivery is a lane of its own (Uncount)
		switch {
		case !c.Delivered:
			a.Altered = append(a.Altered, c)
		case a.SkipLocked:
			kept = append(kept, c)
		default:
			removed = append(removed, c)
		}
	}
	a.queueDelivered(b, removeDelivered, removed)
	a.queueDelivered(b, keepDelivered, kept)
	a.queueAltered(b)
}

// queueDelivered takes deliveries out of their lanes.
func (a *attempt) queueDelivered(b *pgx.Batch, sql string, cs []*checkpoint.Change) {
	if len(cs) == 0 {
		return
	}
	sinks, tables, ids := changeKeys(cs)
	b.Queue(a.s.SQL(sql), a.s.Cfg.Pipeline, sinks, tables, ids).Query(func(rows pgx.Rows) error {
		var n int64
		var isAlone, rowSettled bool
		var attempts int
		_, err := pgx.ForEachRow(rows, []any{&n, &isAlone, &attempts, &rowSettled}, func() error {
			c := cs[n]
			if isAlone {
				a.Uncount(c)
			}
			m := a.Messages.Of(store.KeyOfMessage(c.Key))
			m.Attempts = max(m.Attempts, attempts)
			m.Settled = m.Settled || rowSettled
			return nil
		})
		return err
	})
}

func (a *attempt) queueAltered(b *pgx.Batch) {
	cs := a.Altered
	if len(cs) == 0 {
		return
	}
	sinks, tables, ids := changeKeys(cs)
	states, classes, errs := make([]string, len(cs)), make([]string, len(cs)), make([]string, len(cs))
	blocks, due := make([]bool, len(cs)), make([]bool, len(cs))
	attempts, tries, delays := make([]int32, len(cs)), make([]int32, len(cs)), make([]int64, len(cs))
	epochs, calls := make([]int64, len(cs)), make([]int64, len(cs))
	for i, c := range cs {
		states[i], classes[i], errs[i] = string(c.State), c.ErrorClass, store.ErrorText(c.LastError)
		blocks[i], attempts[i], delays[i] = c.Blocks, int32(c.Attempts), c.NextAttempt.Microseconds()
		tries[i], epochs[i], calls[i] = int32(c.Tries), c.Failed.Epoch, c.Failed.Call
		due[i] = store.Timed(c.Due, c.State)
	}
	b.Queue(a.s.SQL(alterParked), a.s.Cfg.Pipeline, sinks, tables, ids, states, blocks, attempts, due, delays, errs, classes,
		tries, epochs, calls).Query(
		func(rows pgx.Rows) error {
			var n int64
			var isAlone bool
			_, err := pgx.ForEachRow(rows, []any{&n, &isAlone}, func() error {
				if isAlone {
					a.Uncount(cs[n])
				}
				if due[n] && blocks[n] && !isAlone {
					a.Lanes.Want(cs[n].Key, cs[n].NextAttempt)
				}
				return nil
			})
			return err
		})
}

func (a *attempt) queueSupersede(b *pgx.Batch, lanes *store.LaneSet) {
	if len(lanes.Order) == 0 {
		return
	}
	var sinks, groups []string
	for _, lane := range lanes.Order {
		sinks, groups = append(sinks, lane.Sink), append(groups, lane.Group)
	}
	b.Queue(a.s.SQL(supersede), a.s.Cfg.Pipeline, sinks, groups).Query(func(rows pgx.Rows) error {
		var k checkpoint.Key
		_, err := pgx.ForEachRow(rows, []any{&k.Table, &k.ID, &k.Sink}, func() error {
			a.super = append(a.super, store.KeyOfMessage(k))
			a.Superseded = append(a.Superseded, k)
			return nil
		})
		return err
	})
}

func changeKeys(cs []*checkpoint.Change) (sinks, tables, ids []string) {
	sinks, tables, ids = make([]string, len(cs)), make([]string, len(cs)), make([]string, len(cs))
	for i, c := range cs {
		sinks[i], tables[i], ids[i] = c.Key.Sink, c.Key.Table, c.Key.ID
	}
	return sinks, tables, ids
}
