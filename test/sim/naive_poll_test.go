package sim_test

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// poll sends what is due, one delivery a lane.
func (n *naive) poll(ctx context.Context) error {
	var open []string
	for _, name := range slices.Sorted(maps.Keys(n.env.Sinks)) {
		if !n.paused[name] || n.flaw == "pause ignored" {
			open = append(open, name)
		}
	}
	due, _, err := n.store.Due(ctx, &checkpoint.DueQuery{Sinks: open, Limit: 100, Bytes: 1 << 20})
	if err != nil {
		return err
	}
	for _, p := range due {
		lane := checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group}
		if n.blocked[checkpoint.Lane{Group: p.Message.Group}] && p.Message.Group != "" {
			continue // naive: even what is before the stray message waits
		}
		if err := n.ping(ctx); err != nil {
			return err
		}
		ch := checkpoint.Change{Key: p.Key(), Group: p.Message.Group, Blocks: p.Blocks, Attempts: p.Attempts + 1}
		err := n.deliver(ctx, p.Sink, p.Message, p.Attempts+1)
		class, _, _ := sink.Classify(err)
		switch {
		case err == nil && n.flaw != "retry for ever":
			ch.Delivered = true
		case class == sink.ClassPermanent:
			ch.State = checkpoint.StateDead
		default:
			ch.State, ch.Due, ch.NextAttempt = checkpoint.StateRetrying, true, time.Second
		}
		if n.flaw == "unblock early" {
			n.blocked[lane] = false
		}
		done, err := n.store.Settle(ctx, &checkpoint.Settlement{Changes: []checkpoint.Change{ch}})
		if err != nil {
			return err
		}
		for _, l := range done.Open {
			n.blocked[l] = false
		}
	}
	return nil
}

// requests carries out what operators ask for.
func (n *naive) requests(ctx context.Context) error {
	list, err := n.store.Requests(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		r := &list[i]
		for done := false; !done; {
			lanes, err := n.store.Lanes(ctx, r, 10)
			if err != nil {
				return err
			}
			a, err := n.store.Apply(ctx, r, lanes)
			if err != nil {
				return err
			}
			for _, l := range a.Open {
				n.blocked[l], n.held[l] = false, false
			}
			for _, l := range a.Blocked {
				n.blocked[l] = n.flaw != "hold ignored" || r.Verb != checkpoint.VerbHold
			}
			done = a.Done
		}
		for _, name := range r.Selection.Sinks {
			n.paused[name] = r.Verb == checkpoint.VerbPause
		}
	}
	return nil
}

// list writes down what the tables say is pending, to look again when the log has come so far.
func (n *naive) list(ctx context.Context) error {
	if n.flaw == "no reconcile" {
		return nil
	}
	cursor := ""
	for {
		rows, err := n.store.Pending(ctx, cursor, 100)
		if err != nil {
			return err
		}
		if len(rows.Rows) > 0 {
			n.listed[rows.Barrier] = rows
			n.env.Source.Await(rows.Barrier)
		}
		if cursor = rows.Cursor; cursor == "" {
			return nil
		}
	}
}

// found delivers the rows that the log did not hold. Nothing is ever in memory here when a barrier is read.
func (n *naive) found(ctx context.Context, rows *checkpoint.PendingRows) error {
	ms, at, err := n.store.Fetch(ctx, rows.Rows, outbox.Position{Log: n.saved.Log, Commit: rows.Commit}, 1<<30)
	if err != nil {
		return err
	}
	for i, m := range ms {
		if err := n.message(ctx, m, at[i]); err != nil {
			return err
		}
	}
	return nil
}

// The deliveries settled beyond the checkpoint, each as a range of its own.

func (n *naive) setAbove(name string, p outbox.Position) {
	if n.above[name] == nil {
		n.above[name] = map[outbox.Position]bool{}
	}
	n.above[name][p] = true
}

func (n *naive) isAbove(name string, p outbox.Position) bool {
	for _, r := range n.saved.SettledAbove[name] {
		if r.First.Compare(p) <= 0 && p.Compare(r.Last) <= 0 {
			return true
		}
	}
	return false
}

func (n *naive) withAbove() *checkpoint.Checkpoint {
	c := n.saved
	c.SettledAbove = maps.Clone(n.saved.SettledAbove)
	if c.SettledAbove == nil {
		c.SettledAbove = map[string][]checkpoint.Range{}
	}
	for name, at := range n.above {
		for _, p := range slices.SortedFunc(maps.Keys(at), outbox.Position.Compare) {
			c.SettledAbove[name] = append(slices.Clone(c.SettledAbove[name]), checkpoint.Range{First: p, Last: p})
		}
	}
	n.above = map[string]map[outbox.Position]bool{}
	n.saved = c
	return &c
}

// renumbered are the same messages as a moved log numbers them.
func renumbered(above map[string][]checkpoint.Range, log uint32) map[string][]checkpoint.Range {
	to := map[string][]checkpoint.Range{}
	for name, rs := range above {
		for _, r := range rs {
			r.First.Log, r.Last.Log = log, log
			to[name] = append(to[name], r)
		}
	}
	return to
}
