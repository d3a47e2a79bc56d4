package store

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// A MessageKey names a message: its table, and the id of its row.
type MessageKey struct{ Table, ID string }

// A Message is one with parked deliveries, or that had some until this settlement.
type Message struct {
	Key MessageKey
	// Row is the index in Settlement.Rows; -1 if the row was settled before.
	Row int
	Txn uint64
	// Attempts is how many attempts the delivery took, if a change of this settlement delivers it. Receipt is what sinks answered.
	Attempts int
	Receipt  string
	// Settled: its row was part of an earlier settlement. Until then, other deliveries of it may be unsettled.
	Settled bool
	// Live are its deliveries that are not over, Over the dropped and delivered ones.
	Live, Over []ParkedView
	// Locked: the row is there but locked, and has still to be dealt with.
	Locked bool
	// Unfinished: that was so before.
	Unfinished bool
}

// A ParkedView is what a row in the user's table shows of a parked delivery.
type ParkedView struct {
	Sink       string
	State      checkpoint.State
	Attempts   int
	Next       *time.Time
	LastError  string
	InTable    bool
	RowSettled bool
}

// See adds what is parked of the message.
func (m *Message) See(v ParkedView) {
	m.Settled = m.Settled || v.RowSettled
	if v.State == checkpoint.StateDropped || v.State == checkpoint.StateDelivered {
		m.Over = append(m.Over, v)
	} else {
		m.Live = append(m.Live, v)
	}
}

// Messages are those that a settlement has to do with. The zero value is empty.
type Messages struct {
	// Order is that in which they were added.
	Order []*Message
	byKey map[MessageKey]*Message
}

// Of finds or adds a message.
func (ms *Messages) Of(key MessageKey) *Message {
	m := ms.byKey[key]
	if m == nil {
		if ms.byKey == nil {
			ms.byKey = make(map[MessageKey]*Message)
		}
		m = &Message{Key: key, Row: -1}
		ms.byKey[key] = m
		ms.Order = append(ms.Order, m)
	}
	return m
}

// Collect adds the messages of a settlement's changes, the unfinished ones, and those whose row is settled and that may have parked
// deliveries.
func (ms *Messages) Collect(in *checkpoint.Settlement, unfinished []MessageKey) {
	for i := range in.Changes {
		m := ms.Of(KeyOfMessage(in.Changes[i].Key))
		m.Receipt = AppendReceipt(m.Receipt, in.Changes[i].Receipt)
	}
	for _, key := range unfinished {
		ms.Of(key).Unfinished = true
	}
	for i := range in.Rows {
		if r := &in.Rows[i]; r.Parked {
			m := ms.Of(MessageKey{Table: r.Table, ID: r.ID})
			m.Row, m.Txn = i, r.Txn
			m.Receipt = AppendReceipt(m.Receipt, r.Receipt)
		}
	}
}

// AppendReceipt adds a line to what sinks answered; "" adds none.
func AppendReceipt(lines, line string) string {
	if lines == "" || line == "" {
		return lines + line
	}
	return lines + "\n" + line
}

// KeyOfMessage is the message of a parked delivery.
func KeyOfMessage(k checkpoint.Key) MessageKey { return MessageKey{Table: k.Table, ID: k.ID} }

// Complete reports whether every delivery of the message is settled, so that its row may be dealt with.
func (m *Message) Complete() bool { return m.Row >= 0 || m.Settled || m.Unfinished }

// A RowChange is what is to happen to one row of the user's table.
type RowChange struct {
	// State is what the row shows, one of outbox.WordNames. Next is when the message is tried again; nil = no time.
	State    string
	Attempts int
	// Failures are those of Attempts that were refused.
	Failures int
	Next     *time.Time
	Err      string
	// Delivered sets delivered_at.
	Delivered bool
	// Receipt is added to what the row holds already, as a line of its own; "" adds nothing.
	Receipt string
}

// A TableView is what a table lets the relay do with its rows.
type TableView struct {
	OnDelivered outbox.OnDelivered
	// HasStatus: there is a status column. Shows: a column shows what becomes of a parked message.
	HasStatus, Shows bool
	// DeadIsPending: the row of a dead letter looks like one that is pending.
	DeadIsPending bool
	// Viewable: a column shows the state of parked deliveries. Updatable: there is a column that mark would set.
	Viewable, Updatable bool
	// Receipts: there is a column for what sinks answered. With keep, it is the only one that is written.
	Receipts bool
}

// ViewOf returns what a table lets the relay do if all its configured columns exist.
func ViewOf(t *outbox.Table) TableView {
	c := &t.Columns
	viewable := t.OnDelivered != outbox.Keep && (c.Status != "" || c.Attempts != "" || c.Failures != "" || c.NextAttemptAt != "" || c.LastError != "" || len(t.Set) > 0)
	return TableView{OnDelivered: t.OnDelivered, HasStatus: c.Status != "", Shows: t.ShowsParked(), Viewable: viewable,
		DeadIsPending: c.Status != "" && t.DeadLooksPending() && t.DeadFlag() == nil,
		Updatable:     viewable || c.DeliveredAt != "" || c.Receipt != "", Receipts: c.Receipt != ""}
}

// Delivered is what the row of a delivered message gets: it is deleted, changed (touch alone), or left alone.
func (t *TableView) Delivered(c *RowChange, dropped bool) (del, touch bool) {
	switch {
	case t.OnDelivered == outbox.Delete:
		return true, true
	case t.OnDelivered == outbox.Keep && t.Receipts && c.Receipt != "":
		return false, true
	case t.OnDelivered != outbox.Mark || !t.Updatable:
		return false, false
	}
	c.State, c.Delivered, c.Failures = string(checkpoint.StateDelivered), true, max(c.Attempts-1, 0)
	if dropped {
		c.Failures = c.Attempts
	}
	if dropped && !t.DeadIsPending { // else only the word for delivered can show that nothing is left to do for the row
		// Without a status column, only delivered_at can show it.
		c.State, c.Delivered = string(checkpoint.StateDead), !t.HasStatus
	}
	return false, true
}

// Decide returns what happens to the row of a message whose deliveries were parked: on_delivered if nothing is parked any more, else the view of what
// is.
func (t *TableView) Decide(m *Message, c *RowChange) (del, touch bool) {
	if t.Receipts {
		c.Receipt = m.Receipt
	}
	if len(m.Live) == 0 {
		c.Attempts = max(m.Attempts, 1)
		dropped := false
		for i := range m.Over {
			c.Attempts = max(c.Attempts, m.Over[i].Attempts)
			if m.Over[i].State == checkpoint.StateDropped {
				dropped, c.Err = true, m.Over[i].LastError
			}
		}
		return t.Delivered(c, dropped)
	}
	if t.OnDelivered == outbox.Delete && !t.Shows {
		// tailbox_parked has a copy, unless the message was too large for one.
		inTable := false
		for i := range m.Live {
			inTable = inTable || m.Live[i].InTable
		}
		return true, m.Row >= 0 && !inTable
	}
	if !t.Viewable {
		return false, t.Receipts && c.Receipt != ""
	}
	t.show(m, c)
	return false, true
}

// show fills in what the row shows: the worst of its deliveries.
func (t *TableView) show(m *Message, c *RowChange) {
	rank := func(s checkpoint.State) int {
		switch s {
		case checkpoint.StateDead:
			return 2
		case checkpoint.StateRetrying:
			return 1
		}
		return 0
	}
	worst := &m.Live[0]
	for i := range m.Live {
		v := &m.Live[i]
		if rank(v.State) > rank(worst.State) || rank(v.State) == rank(worst.State) && v.Attempts > worst.Attempts {
			worst = v
		}
	}
	c.Attempts, c.Failures, c.Next, c.Err = worst.Attempts, worst.Attempts, worst.Next, worst.LastError
	switch worst.State {
	case checkpoint.StateDead, checkpoint.StateRetrying:
		c.State = string(worst.State)
	default:
		c.State = string(checkpoint.StateWaiting)
	}
}

// A Cleanup is what a settlement does about parked deliveries after their messages' rows were dealt with.
type Cleanup struct {
	// Unfinished are messages whose column unfinished is written; UnfinishedWant are its values.
	Unfinished     []*Message
	UnfinishedWant []bool
	// Over are messages whose dropped and delivered deliveries are removed; of Kept, only delivered ones are.
	Over, Kept []*Message
	// Settled are messages whose column row_settled is written; SettledWant are its values.
	Settled     []*Message
	SettledWant []bool
	// Locked: the row of a message has still to be dealt with.
	Locked bool
}

// CleanupOf finds out what is over, and what is still to be done about rows. Skipped are the indexes of Settlement.Rows
// that were not dealt with.
func CleanupOf(messages []*Message, skipped map[int]bool) *Cleanup {
	c := &Cleanup{}
	for _, m := range messages {
		if m.Locked || m.Unfinished {
			c.Unfinished, c.UnfinishedWant = append(c.Unfinished, m), append(c.UnfinishedWant, m.Locked)
			c.Locked = c.Locked || m.Locked
		}
		switch {
		case m.Row >= 0 && skipped[m.Row], !m.Complete():
		case len(m.Live) == 0 && !m.Locked && len(m.Over) > 0:
			c.Over = append(c.Over, m)
		case len(m.Live) > 0 && len(m.Over) > 0:
			c.Kept = append(c.Kept, m)
		}
		if !m.Complete() {
			continue
		}
		// A message that was routed anew has parked deliveries that do not know yet that the row was dealt with.
		want := m.Row < 0 || !skipped[m.Row]
		for _, v := range append(m.Live[:len(m.Live):len(m.Live)], m.Over...) {
			if v.RowSettled != want {
				c.Settled, c.SettledWant = append(c.Settled, m), append(c.SettledWant, want)
				break
			}
		}
	}
	return c
}

// Keys are the messages as two lists.
func Keys(ms []*Message) (tables, ids []string) {
	tables, ids = make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		tables[i], ids[i] = m.Key.Table, m.Key.ID
	}
	return tables, ids
}

// DeliveredNow reports whether this settlement delivers the message as a whole.
func (m *Message) DeliveredNow(skipped map[int]bool) bool {
	return m.Complete() && !(m.Row >= 0 && skipped[m.Row]) && !m.Locked && len(m.Live) == 0 &&
		!slices.ContainsFunc(m.Over, func(v ParkedView) bool { return v.State == checkpoint.StateDropped })
}
