package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// errKilled is what calls of a killed relay get: nobody hears it.
var errKilled = errors.New("the relay was killed")

// callKind tells whose call it is.
type callKind int

const (
	sourceCall callKind = iota
	storeCall
	sinkCall
	callKinds
)

// A call is one call of a contract by a relay. It waits for the scheduler before its effect and once more before its
// answer.
type call struct {
	inst  *instance
	label string
	kind  callKind
	// admit, run by the scheduler when the call was first seen, checks what the caller decided.
	admit   func()
	attempt *attempt // of a sink, else nil
	// ready reports whether the effect can happen; nil means always.
	ready func() bool
	// effect happens in the world; it sets err for the caller.
	effect func()
	// answered runs when the caller gets the answer; lost when it left, or died, and does not get it.
	answered func()
	lost     func()

	at       time.Time // when it was made
	err      error
	effected bool
	closed   bool
	left     bool // the caller's context ended first
	done     chan struct{}
}

// do makes a call and waits for its answer.
func (w *World) do(ctx context.Context, c *call) error {
	c.at = time.Now()
	c.done = make(chan struct{})
	w.mu.Lock()
	if c.inst.dead {
		w.mu.Unlock()
		return errKilled
	}
	w.arrived = append(w.arrived, c)
	w.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.closed {
		return c.err
	}
	c.left = true
	return ctx.Err()
}

// intake sorts out what happened since the last step: calls that left and calls that arrived.
func (w *World) intake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.bugs {
		w.fail("state", "%v", err)
	}
	arrived := w.arrived
	w.arrived = nil
	slices.SortStableFunc(arrived, func(a, b *call) int { return strings.Compare(a.label, b.label) })
	w.pending = slices.DeleteFunc(w.pending, func(c *call) bool { return c.left && w.leave(c) })
	for _, c := range arrived {
		w.logf("%s", c.label)
		if c.admit != nil {
			c.admit()
		}
		if c.left {
			w.leave(c)
			continue
		}
		w.pending = append(w.pending, c)
	}
	confirms := w.confirms
	w.confirms = nil
	for _, c := range confirms {
		c()
	}
}

func (w *World) leave(c *call) bool {
	w.logf("%s: left", c.label)
	if c.lost != nil {
		c.lost()
	}
	return true
}

// advance takes a call one step further: its effect, then its answer.
func (w *World) advance(c *call) {
	if !c.effected {
		c.effected = true
		if c.effect != nil {
			c.effect()
		}
		w.logf("%s: effect %v", c.label, errText(c.err))
		if w.rng.IntN(100) >= w.plan.atOnce {
			return
		}
	}
	w.answer(c)
}

// answer lets the caller go on.
func (w *World) answer(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.pending, c); i >= 0 {
		w.pending = slices.Delete(w.pending, i, i+1)
	}
	if c.left {
		w.leave(c)
		return
	}
	if c.answered != nil {
		c.answered()
	}
	w.logf("%s: answer %v", c.label, errText(c.err))
	c.closed = true
	close(c.done)
}

// abort ends all calls of a killed relay without any effect of theirs.
func (w *World) abort(inst *instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(c *call) bool {
		if c.inst != inst {
			return false
		}
		if c.lost != nil {
			c.lost()
		}
		c.err, c.closed = errKilled, true
		close(c.done)
		return true
	})
}

func errText(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}
