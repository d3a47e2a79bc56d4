package sim_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/sim"
)

// naive is the simplest relay that keeps the rules: one goroutine, one message at a time, whatever fails is parked at
// once. It exists to test the simulator, and its flaws to test the oracle.
type naive struct {
	env   *sim.Env
	flaw  string
	store checkpoint.Store

	blocked map[checkpoint.Lane]bool
	held    map[checkpoint.Lane]bool
	paused  map[string]bool
	above   map[string]map[outbox.Position]bool
	saved   checkpoint.Checkpoint
	savedAt time.Time
	batches chan *source.Batch
	listed  map[string]*checkpoint.PendingRows
}

// flaws that the oracle must find.
var flaws = []string{"read position", "park in memory", "blocked not loaded", "unblock early", "no sweep",
	"invisible ignored", "first of two sinks", "send while blocked", "confirm early", "no reconcile", "bare progress",
	"pause ignored", "hold ignored", "retry for ever"}

func naiveRelay(flaw string) sim.Subject {
	return func(ctx context.Context, env *sim.Env) error {
		for {
			n := &naive{env: env, flaw: flaw, blocked: map[checkpoint.Lane]bool{}, held: map[checkpoint.Lane]bool{},
				paused: map[string]bool{}, batches: make(chan *source.Batch), listed: map[string]*checkpoint.PendingRows{}}
			err := n.session(ctx)
			if n.store != nil {
				_ = n.store.Close(context.WithoutCancel(ctx)) // the session is over, whatever it says
			}
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, source.ErrUnjudged) || errors.Is(err, source.ErrStop) {
				return err
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// session runs from taking the lock until something is lost.
func (n *naive) session(ctx context.Context) error {
	var err error
	if n.store, err = n.env.Open(ctx); err != nil {
		return err
	}
	loaded, err := n.store.Load(ctx)
	if err != nil {
		return err
	}
	for _, l := range loaded.Blocked {
		n.blocked[l] = n.flaw != "blocked not loaded"
	}
	for _, l := range loaded.HeldLanes {
		n.held[l] = true
	}
	for _, s := range loaded.PausedSinks {
		n.paused[s] = true
	}
	if err := n.position(ctx, loaded); err != nil {
		return err
	}
	tailing, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- n.env.Source.Run(tailing, source.Start{From: n.saved.Resume, Log: n.saved.Log}, func(ctx context.Context, b *source.Batch) error {
			select {
			case n.batches <- b:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err = n.loop(ctx, ended)
	cancel()
	if !errors.Is(err, errEnded) {
		<-ended
	}
	return err
}

var errEnded = errors.New("the source ended")

func (n *naive) loop(ctx context.Context, ended chan error) error {
	tick, reconcile := time.Now().Add(n.env.Plan.Tick), time.Now().Add(n.env.Plan.Reconcile)
	for ctx.Err() == nil {
		var steps []func(context.Context) error
		select {
		case b := <-n.batches:
			steps = append(steps, func(ctx context.Context) error { return n.batch(ctx, b) })
		case <-ended:
			return errEnded
		case <-time.After(n.env.Plan.Tick / 4):
		case <-ctx.Done():
		}
		// The clock, not the select, decides what is due: or a seed would not decide everything.
		if now := time.Now(); !now.Before(tick) {
			tick = now.Add(n.env.Plan.Tick)
			steps = append(steps, n.requests, n.poll)
		}
		if now := time.Now(); !now.Before(reconcile) {
			reconcile = now.Add(n.env.Plan.Reconcile)
			steps = append(steps, n.list)
		}
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// position makes sure that there is one, and sweeps where it is new.
func (n *naive) position(ctx context.Context, l *checkpoint.Loaded) error {
	c := l.Checkpoint
	var id string
	var from source.Resume
	if c != nil {
		id, from = c.SourceID, c.Resume
	}
	x, err := n.env.Source.Examine(ctx, id, from)
	if err != nil {
		return err
	}
	n.above = map[string]map[outbox.Position]bool{}
	if c != nil && x.Lost == "" && !c.SweepPending {
		n.saved = *c
		if x.Moved {
			n.saved.SourceID, n.saved.Log = x.SourceID, c.Log+1
			n.saved.SettledAbove = renumbered(c.SettledAbove, c.Log+1)
			return n.store.Save(ctx, &n.saved)
		}
		return nil
	}
	shot, err := n.env.Source.Establish(ctx)
	if err != nil {
		return err
	}
	log := uint32(1)
	if c != nil {
		log = c.Log + 1
	}
	sweep, err := shot.Judge(ctx, source.Known{First: c == nil, AcceptGap: l.AcceptGap})
	if err != nil {
		return err
	}
	n.saved = checkpoint.Checkpoint{SourceID: x.SourceID, Resume: shot.Resume(), Log: log, SweepPending: sweep && n.flaw != "no sweep"}
	if err := n.store.Save(ctx, &n.saved); err != nil {
		return err
	}
	if n.saved.SweepPending {
		if err := shot.Pending(ctx, log, func(ctx context.Context, b *source.Batch) error { return n.each(ctx, b) }); err != nil {
			return err
		}
		n.saved.SweepPending = false
		return n.store.Save(ctx, &n.saved)
	}
	return shot.Close(ctx)
}

func (n *naive) batch(ctx context.Context, b *source.Batch) error {
	if n.flaw == "confirm early" && b.Resume != "" {
		n.env.Source.Confirm(b.Resume)
	}
	if n.flaw == "read position" && b.Resume != "" && len(b.Messages) > 1 {
		n.saved.Resume = b.Resume
		if err := n.store.Save(ctx, &n.saved); err != nil {
			return err
		}
	}
	if err := n.each(ctx, b); err != nil {
		return err
	}
	if b.Barrier != "" && n.listed[b.Barrier] != nil {
		if err := n.found(ctx, n.listed[b.Barrier]); err != nil {
			return err
		}
	}
	if b.Resume == "" || len(b.Messages) == 0 && time.Since(n.savedAt) < 10*time.Second && n.flaw != "bare progress" {
		return nil
	}
	n.saved.Resume, n.savedAt = b.Resume, time.Now()
	if err := n.store.Save(ctx, &n.saved); err != nil {
		return err
	}
	n.env.Source.Confirm(b.Resume)
	return nil
}

// each delivers or parks a batch's messages one by one, and settles each before the next. The checkpoint moves
// only at the batch's end, so a crash repeats the batch.
func (n *naive) each(ctx context.Context, b *source.Batch) error {
	for i, m := range b.Messages {
		var at []string
		if b.ParkedAt != nil {
			at = b.ParkedAt[i]
		}
		if err := n.message(ctx, m, at); err != nil {
			return err
		}
	}
	return nil
}

func (n *naive) message(ctx context.Context, m *outbox.Message, parkedAt []string) error {
	route := n.route(m)
	set := &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn, Parked: true}}}
	to := []string{""}
	if route != nil && (m.Fault == nil || m.Fault.Class != outbox.FaultUndecodable) {
		to = route.To
	}
	for i, name := range to {
		if slices.Contains(parkedAt, name) || n.isAbove(name, m.Position) {
			continue
		}
		p, err := n.send(ctx, name, m)
		if err != nil {
			return err
		}
		if p != nil && n.flaw != "park in memory" {
			set.Park = append(set.Park, *p)
		}
		n.setAbove(name, m.Position)
		if i == 0 && n.flaw == "first of two sinks" {
			break
		}
	}
	set.Checkpoint = func([]int) *checkpoint.Checkpoint { return n.withAbove() }
	return n.settle(ctx, set)
}

// settle repeats what was not visible.
func (n *naive) settle(ctx context.Context, set *checkpoint.Settlement) error {
	for {
		done, err := n.store.Settle(ctx, set)
		if err != nil {
			return err
		}
		if len(done.Invisible) == 0 || n.flaw == "invisible ignored" {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		set = &checkpoint.Settlement{Rows: set.Rows}
	}
}

// send delivers one message, or says how it is parked.
func (n *naive) send(ctx context.Context, name string, m *outbox.Message) (*checkpoint.Parked, error) {
	p := &checkpoint.Parked{Sink: name, Message: m, Blocks: m.Group != ""}
	lane := checkpoint.Lane{Sink: name, Group: m.Group}
	wait := func(state checkpoint.State, after time.Duration) (*checkpoint.Parked, error) {
		p.State, p.Due, p.NextAttempt = state, after > 0, after
		n.blocked[lane] = n.blocked[lane] || p.Blocks
		return p, nil
	}
	if d := time.Until(m.AvailableAt); d > 0 {
		p.Blocks = false
		return wait(checkpoint.StateWaiting, d)
	}
	if name == "" || m.Fault != nil {
		p.InTable = m.Fault != nil && m.Fault.Class == outbox.FaultTooLarge
		return wait(checkpoint.StateDead, 0)
	}
	stray := checkpoint.Lane{Group: m.Group}
	if m.Group != "" && (n.blocked[lane] && n.flaw != "send while blocked" || n.blocked[stray] || n.held[lane]) || n.paused[name] {
		return wait(checkpoint.StateWaiting, 0)
	}
	if err := n.ping(ctx); err != nil {
		return nil, err
	}
	err := n.deliver(ctx, name, m, 1)
	if err == nil {
		return nil, nil
	}
	if class, _, _ := sink.Classify(err); class == sink.ClassPermanent {
		if n.route(m).OnExhausted == router.Skip || m.Group == "" {
			p.Blocks = false
		}
		return wait(checkpoint.StateDead, 0)
	}
	return wait(checkpoint.StateRetrying, time.Second)
}

func (n *naive) ping(ctx context.Context) error {
	_, err := n.store.Ping(ctx)
	return err
}

func (n *naive) deliver(ctx context.Context, name string, m *outbox.Message, attempt int) error {
	k := n.env.Sinks[name]
	d := &sink.Delivery{Message: m, Topic: m.Topic, Key: m.Key, Value: m.Payload, Attempt: attempt}
	if x, ok := k.(sink.Destinations); ok {
		d.Destination = x.Destination(d)
	}
	answers := k.Deliver(ctx, []*sink.Delivery{d})
	if answers == nil {
		return nil
	}
	return answers[0]
}

func (n *naive) route(m *outbox.Message) *sim.Route {
	i := slices.IndexFunc(n.env.Plan.Routes, func(r sim.Route) bool { return r.Type == m.Type })
	if i < 0 {
		return nil
	}
	return &n.env.Plan.Routes[i]
}
