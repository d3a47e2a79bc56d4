package store

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/delivery"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

// A settled is a message with parked deliveries, or that had some until this settlement.
type settled struct {
	key store.MessageKey
	// row is the index in Settlement.Rows; -1 if the row was settled before.
	row  int
	kind document.IDKind
	// attempts is what delivered it, where a change of this settlement did.
	attempts int
	// receipt is what sinks answered.
	receipt string
	// settled: its row was part of an earlier settlement. Until then, other deliveries of it may be unsettled.
	settled bool
	// views are its parked deliveries. Known: they were read; stale: they have to be read again.
	views        []*delivery.Document
	known, stale bool
	// touched: something happens to it. One that is only parked is not.
	touched bool
	// locked: the document is there but locked, and has still to be dealt with.
	locked bool
	// unfinished: that was so before.
	unfinished bool
}

// message finds or adds a message that something happens to.
func (a *attempt) message(key store.MessageKey) *settled {
	m := a.known(key)
	m.touched = true
	return m
}

// known finds or adds a message of which it must be known what is parked.
func (a *attempt) known(key store.MessageKey) *settled {
	m := a.msgs[key]
	if m == nil {
		m = &settled{key: key, row: -1}
		a.msgs[key] = m
		a.order = append(a.order, m)
	}
	return m
}

// at is the delivery at a sink; nil if none is parked.
func (m *settled) at(sink string) *delivery.Document {
	for _, v := range m.views {
		if v.Sink == sink {
			return v
		}
	}
	return nil
}

func (m *settled) remove(v *delivery.Document) {
	m.views = slices.DeleteFunc(m.views, func(other *delivery.Document) bool { return other == v })
}

// live are its deliveries that are not over.
func (m *settled) live() []*delivery.Document {
	return slices.DeleteFunc(slices.Clone(m.views), func(v *delivery.Document) bool { return v.Over() })
}

// complete reports whether every delivery of the message is settled, so that its document may be dealt with.
func (m *settled) complete() bool { return m.touched && (m.row >= 0 || m.settled || m.unfinished) }

// collectMessages adds the messages that the settlement is about.
func (a *attempt) collectMessages() {
	for i := range a.In.Changes {
		m := a.message(store.KeyOfMessage(a.In.Changes[i].Key))
		m.receipt = store.AppendReceipt(m.receipt, a.In.Changes[i].Receipt)
	}
	for _, key := range a.Unfinished {
		a.message(key).unfinished = true
	}
	for i := range a.In.Rows {
		if r := &a.In.Rows[i]; r.Parked {
			m := a.message(store.MessageKey{Table: r.Table, ID: r.ID})
			m.row, m.kind = i, document.IDKind(r.Txn)
			m.receipt = store.AppendReceipt(m.receipt, r.Receipt)
		}
	}
	for i := range a.In.Park {
		p := &a.In.Park[i]
		a.known(store.MessageKey{Table: p.Message.Table, ID: p.RowID()})
	}
}

// readViews reads what is parked of the messages for which that is not known.
func (a *attempt) readViews(ctx context.Context) error {
	wanted := make(map[store.MessageKey]*settled)
	var ids []string
	for _, m := range a.order {
		if m.known && !m.stale {
			continue
		}
		m.known, m.stale, m.views = true, false, nil
		wanted[m.key] = m
		ids = append(ids, m.key.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := a.s.parked.bareOf(ctx, ids)
	if err != nil {
		return err
	}
	for _, v := range found {
		if m := wanted[v.MessageKey()]; m != nil {
			m.views = append(m.views, v)
			m.settled = m.settled || v.RowSettled
		}
	}
	return nil
}

// rows deals with the users' documents: first those of messages of which nothing is parked, then the others.
func (a *attempt) rows(ctx context.Context) error {
	if err := a.plainRows(ctx); err != nil {
		return err
	}
	type statement struct {
		table *outbox.Table
		del   bool
	}
	rows := make(map[statement][]rowChange)
	for _, m := range a.order {
		t := a.s.tables.named(m.key.Table)
		if t == nil || !m.complete() || outbox.IsStandInID(m.key.ID) {
			continue
		}
		c := rowChange{id: m.key.ID, index: m.row, kind: m.kind, msg: m}
		view := store.ViewOf(t)
		d := m.decided()
		if del, touch := view.Decide(d, &c.RowChange); touch {
			if a.In.LeaveRows {
				if m.locked = d.Leave(); !m.locked && m.row >= 0 {
					a.Skipped[m.row] = true
				}
				continue
			}
			k := statement{t, del}
			rows[k] = append(rows[k], c)
		}
	}
	for i := range a.s.cfg.Tables {
		t := &a.s.cfg.Tables[i]
		for _, del := range []bool{true, false} {
			if err := a.rowsOf(ctx, t, del, false, rows[statement{t, del}]); err != nil {
				return err
			}
		}
	}
	return nil
}

// decided is the message as the decision about its document needs it.
func (m *settled) decided() *store.Message {
	d := &store.Message{Key: m.key, Row: m.row, Attempts: m.attempts, Receipt: m.receipt, Settled: m.settled, Unfinished: m.unfinished}
	for _, v := range m.views {
		d.See(store.ParkedView{Sink: v.Sink, State: v.State, Attempts: v.Attempts, Next: orNil(v.Next), LastError: v.LastError, InTable: v.InTable, RowSettled: v.RowSettled})
	}
	return d
}

// cleanUp removes deliveries that are over, and notes what is still to be done about documents.
func (a *attempt) cleanUp(ctx context.Context) error {
	for _, m := range a.order {
		if m.locked || m.unfinished {
			a.s.Unfinished = a.s.Unfinished || m.locked
			for _, v := range m.views {
				if v.Unfinished != m.locked {
					v.Unfinished = m.locked
					a.writes.set(v.OID, bson.D{{Key: "unfinished", Value: m.locked}})
				}
			}
		}
		if !m.complete() {
			continue
		}
		passed := m.row >= 0 && a.Skipped[m.row]
		live := len(m.live())
		for _, v := range slices.Clone(m.views) {
			removed := !passed && (live == 0 && !m.locked && v.Over() || live > 0 && v.State == checkpoint.StateDelivered)
			if removed {
				m.remove(v)
				a.writes.remove = append(a.writes.remove, v.OID)
				continue
			}
			// A message that was routed anew has parked deliveries that do not know yet that its document was dealt with.
			if v.RowSettled == passed {
				v.RowSettled = !passed
				a.writes.set(v.OID, bson.D{{Key: "row_settled", Value: v.RowSettled}})
			}
		}
	}
	return a.flush(ctx)
}

// shown is a time for a column that shows it; nil is null.
func shown(t *time.Time) any {
	if t == nil {
		return nil
	}
	return *t
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
