package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// messageKey names a message: its table, and the id of its row.
type messageKey struct{ table, id string }

// stateDelivered is a state that only this store knows: delivered, but the message's row was locked.
const stateDelivered checkpoint.State = "delivered"

// A message is one with parked deliveries, or that had some until this settlement.
type message struct {
	key messageKey
	// row is the index in Settlement.Rows; -1 where the row was settled before.
	row int
	txn uint64
	// attempts is what delivered it, where a change of this settlement did.
	attempts int
	// settled: its row was part of an earlier settlement. Until then, other deliveries of it may be unsettled.
	settled bool
	// live are its deliveries that are not over, over the dropped and delivered ones.
	live, over []parkedView
	// locked: the row is there but locked, and has still to be dealt with.
	locked bool
	// unfinished: that was so before.
	unfinished bool
}

// A parkedView is what a row in the user's table shows of a parked delivery.
type parkedView struct {
	state      checkpoint.State
	attempts   int
	next       *time.Time
	lastError  string
	inTable    bool
	rowSettled bool
}

// message finds or adds a message.
func (a *attempt) message(key messageKey) *message {
	m := a.msgs[key]
	if m == nil {
		m = &message{key: key, row: -1}
		a.msgs[key] = m
		a.order = append(a.order, m)
	}
	return m
}

// collectMessages adds the messages whose row is settled, and those that are unfinished, to those of Changes.
func (a *attempt) collectMessages() {
	for i := range a.in.Changes {
		c := &a.in.Changes[i]
		a.message(messageKey{c.Key.Table, c.Key.ID})
	}
	for _, key := range a.super {
		a.message(key)
	}
	for _, key := range a.unfinished {
		a.message(key).unfinished = true
	}
	for i := range a.in.Rows {
		if r := &a.in.Rows[i]; r.Parked {
			m := a.message(messageKey{r.Table, r.ID})
			m.row, m.txn = i, r.Txn
		}
	}
}

// lookupParked reads what is parked of messages.
const lookupParked = `
SELECT v.n - 1, p.state, p.attempts, p.next_attempt_at, coalesce(p.last_error, ''), p.in_table, p.row_settled
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS v (source_table, message_id, n) CROSS JOIN LATERAL (SELECT * FROM {parked} q
	WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table OFFSET 0) p`

// queueLookup adds lookupParked for all messages collected so far.
func (a *attempt) queueLookup(b *pgx.Batch) {
	if len(a.order) == 0 {
		return
	}
	tables, ids := messageKeys(a.order)
	order := a.order
	b.Queue(a.s.q(lookupParked), a.s.cfg.Pipeline, tables, ids).Query(func(rows pgx.Rows) error {
		var n int64
		var v parkedView
		_, err := pgx.ForEachRow(rows, []any{&n, &v.state, &v.attempts, &v.next, &v.lastError, &v.inTable, &v.rowSettled}, func() error {
			m := order[n]
			m.settled = m.settled || v.rowSettled
			if v.state == checkpoint.StateDropped || v.state == stateDelivered {
				m.over = append(m.over, v)
			} else {
				m.live = append(m.live, v)
			}
			return nil
		})
		return err
	})
}

// queueMessages deals with the rows of messages: on_delivered where nothing is parked any more, else the view of what is.
func (a *attempt) queueMessages(ctx context.Context) error {
	type statement struct {
		table *table
		del   bool
	}
	rows := make(map[statement][]rowChange)
	for _, m := range a.order {
		t := a.s.tables.byName[m.key.table]
		if t == nil || !m.complete() {
			continue
		}
		c := rowChange{id: m.key.id, index: m.row, txn: m.txn, msg: m}
		if del, touch := m.rowChange(t, &c); touch {
			k := statement{t, del}
			rows[k] = append(rows[k], c)
		}
	}
	b := &pgx.Batch{}
	for _, t := range a.s.tables.order {
		for _, del := range []bool{true, false} {
			if err := a.queueRows(b, t, del, false, rows[statement{t, del}]); err != nil {
				return err
			}
		}
	}
	return a.s.send(ctx, b)
}

// complete tells whether every delivery of the message is settled, so that its row may be dealt with.
func (m *message) complete() bool { return m.row >= 0 || m.settled || m.unfinished }

// rowChange decides what happens to the message's row.
func (m *message) rowChange(t *table, c *rowChange) (del, touch bool) {
	if len(m.live) == 0 {
		c.attempts = max(m.attempts, 1)
		dropped := false
		for i := range m.over {
			c.attempts = max(c.attempts, m.over[i].attempts)
			if m.over[i].state == checkpoint.StateDropped {
				dropped, c.err = true, m.over[i].lastError
			}
		}
		return t.onDelivered(c, dropped)
	}
	if t.OnDelivered == outbox.Delete && !hasView(&t.Table) {
		// The copies are all that is needed, unless the message is too large to be copied.
		inTable := false
		for i := range m.live {
			inTable = inTable || m.live[i].inTable
		}
		return true, m.row >= 0 && !inTable
	}
	if !t.viewable() {
		return false, false
	}
	m.view(t, c)
	return false, true
}

// view fills in what the row shows: the worst of its deliveries.
func (m *message) view(t *table, c *rowChange) {
	rank := func(s checkpoint.State) int {
		switch s {
		case checkpoint.StateDead:
			return 2
		case checkpoint.StateRetrying:
			return 1
		}
		return 0
	}
	worst := &m.live[0]
	for i := range m.live {
		v := &m.live[i]
		if rank(v.state) > rank(worst.state) || rank(v.state) == rank(worst.state) && v.attempts > worst.attempts {
			worst = v
		}
	}
	c.attempts, c.next, c.err = worst.attempts, nextAttempt(worst.next), worst.lastError
	switch worst.state {
	case checkpoint.StateDead:
		c.word = t.Words.Dead
	case checkpoint.StateRetrying:
		c.word = t.Words.Retrying
	default:
		c.word = t.Words.Waiting
	}
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
	var over, kept, pending, settled []*message
	var pendingWant, settledWant []bool
	for _, m := range a.order {
		switch {
		case m.locked || m.unfinished:
			pending, pendingWant = append(pending, m), append(pendingWant, m.locked)
			a.s.unfinished = a.s.unfinished || m.locked
		}
		switch {
		case m.row >= 0 && a.skipped[m.row], !m.complete():
		case len(m.live) == 0 && !m.locked && len(m.over) > 0:
			over = append(over, m)
		case len(m.live) > 0 && len(m.over) > 0:
			kept = append(kept, m)
		}
		if !m.complete() {
			continue
		}
		// A message that was routed anew has parked deliveries that do not know yet that the row was dealt with.
		want := m.row < 0 || !a.skipped[m.row]
		for _, v := range append(m.live[:len(m.live):len(m.live)], m.over...) {
			if v.rowSettled != want {
				settled, settledWant = append(settled, m), append(settledWant, want)
				break
			}
		}
	}
	queue := func(sql string, ms []*message, further ...any) {
		if len(ms) == 0 {
			return
		}
		tables, ids := messageKeys(ms)
		b.Queue(a.s.q(sql), append([]any{a.s.cfg.Pipeline, tables, ids}, further...)...)
	}
	queue(noteUnfinished, pending, pendingWant)
	queue(removeOver, over)
	queue(removeKept, kept)
	queue(noteRowSettled, settled, settledWant)
}

func messageKeys(ms []*message) (tables, ids []string) {
	tables, ids = make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		tables[i], ids[i] = m.key.table, m.key.id
	}
	return tables, ids
}
