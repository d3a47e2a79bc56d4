package store

import "github.com/tailbox/tailbox/checkpoint"

// An Attempt is the part of one settlement transaction that is the same in all databases.
type Attempt struct {
	In *checkpoint.Settlement
	// Unfinished are messages of earlier settlements whose rows are dealt with in this one.
	Unfinished []MessageKey
	Out        *checkpoint.Settled
	Messages   Messages
	// Altered are the changes that did not remove a delivery.
	Altered []*checkpoint.Change
	// Superseded are deliveries that became dead because newer ones were parked, or an operator skipped them.
	Superseded []checkpoint.Key
	Lanes      LaneOrder
	// States are those of the touched lanes.
	States []LaneState
	// Skipped are the indexes of rows that are not visible, or locked.
	Skipped map[int]bool

	// changed counts changes by lane, without those of deliveries that are lanes of their own.
	changed map[checkpoint.Lane]int
}

// NewAttempt returns an Attempt in which nothing was done yet.
func NewAttempt(in *checkpoint.Settlement, unfinished []MessageKey) Attempt {
	return Attempt{In: in, Unfinished: unfinished, Out: &checkpoint.Settled{}, Lanes: NewLaneOrder(), Skipped: make(map[int]bool),
		changed: make(map[checkpoint.Lane]int)}
}

// Change counts a change of a delivery. alone: the delivery is a lane of its own, so it does not count for its group's lane.
func (a *Attempt) Change(c *checkpoint.Change, alone bool) {
	lane := LaneOf(c)
	a.Lanes.Touched.Add(lane)
	if !alone {
		a.changed[lane]++
	}
}

// Uncount takes back that a change was counted: the delivery turned out to be a lane of its own.
func (a *Attempt) Uncount(c *checkpoint.Change) { a.changed[LaneOf(c)]-- }

// Settling are the messages whose row is dealt with in this settlement, although deliveries of them are parked.
func (a *Attempt) Settling() map[MessageKey]bool {
	settling := make(map[MessageKey]bool)
	for i := range a.In.Rows {
		if r := &a.In.Rows[i]; r.Parked {
			settling[MessageKey{Table: r.Table, ID: r.ID}] = true
		}
	}
	return settling
}

// ParkedLanes are the lanes that deliveries are parked in.
func (a *Attempt) ParkedLanes() []checkpoint.Lane {
	var lanes LaneSet
	for i := range a.In.Park {
		if p := &a.In.Park[i]; !Alone(p) {
			lanes.Add(checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group})
		}
	}
	return lanes.Order
}

// DecideRows calls do for each row that changes: with on_delivered if nothing is parked of the message any more, else with the state of what is
// parked. view returns nil for a message without a row. With LeaveRows, DecideRows changes no row: it leaves each (Leave), or skips it if it
// is not visible or cannot be left.
func (a *Attempt) DecideRows(view func(*Message) *TableView, visible func(txn uint64) bool, do func(m *Message, del bool, c *RowChange)) {
	for _, m := range a.Messages.Order {
		if !m.Complete() {
			continue
		}
		v := view(m)
		if v == nil {
			continue
		}
		c := RowChange{}
		del, touch := v.Decide(m, &c)
		switch {
		case !touch:
		case !a.In.LeaveRows:
			do(m, del, &c)
		case m.Row >= 0 && m.Txn != 0 && !visible(m.Txn), !m.Leave() && m.Row >= 0:
			a.Skipped[m.Row] = true
		}
	}
}

// Checkpoint says which rows were not dealt with, and returns the checkpoint that is saved with the settlement; nil for none.
func (a *Attempt) Checkpoint() *checkpoint.Checkpoint {
	for i := range a.In.Rows {
		if a.Skipped[i] {
			a.Out.Invisible = append(a.Out.Invisible, i)
		}
	}
	if a.In.Checkpoint == nil {
		return nil
	}
	return a.In.Checkpoint(a.Out.Invisible)
}

// Committed notes a commit. In the store's memory it notes the checkpoint, and that the start was a clean one (a request alone does not show that).
// In Out it notes which of the changed lanes are open, and which go on (R7).
func (a *Attempt) Committed(s interface {
	Saved(*checkpoint.Checkpoint)
	SettledOnce()
	Held() HeldLanes
}, c *checkpoint.Checkpoint, request bool,
) {
	if !request {
		s.SettledOnce()
	}
	if c != nil {
		s.Saved(c)
		a.Out.Saved = true
	}
	ReportLanes(a.Out, a.Lanes.Touched.Order, a.States, a.changed, s.Held())
}
