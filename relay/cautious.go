package relay

import (
	"context"
	"fmt"
)

// startCounting takes back that this start counts as unclean, once it is known that there was nothing to read: ends
// before the first message do not count (R9).
func (e *engine) startCounting() bool {
	if !e.uncounted() || !(e.idleLog || e.stopping) {
		return false
	}
	cp := e.saved
	e.operate(func(ctx context.Context) (func(), error) {
		if err := e.store.Save(ctx, &cp); err != nil {
			return nil, fmt.Errorf("save the checkpoint: %w", err)
		}
		return func() { e.counted = true }, nil
	})
	return true
}

// uncounted tells whether this start still counts as unclean though no message was read.
func (e *engine) uncounted() bool { return !e.counted && !e.readAny && e.phase == phaseTailing }

// cautionNow lets the source decode one more row, when everything before it is settled and its position is written down.
func (e *engine) cautionNow() bool {
	if e.caution == nil || e.stopping || e.list.next != &e.list || !e.storeIdle() {
		return false
	}
	c := e.caution
	e.caution = nil
	if e.cautious++; e.cautious > cautiousMessages {
		e.log.Info("cautious start is over")
		c.reply <- errRestart
		return false
	}
	e.operate(func(ctx context.Context) (func(), error) {
		if err := e.store.Starting(ctx, c.at); err != nil {
			return nil, fmt.Errorf("note the next message: %w", err)
		}
		return func() { c.reply <- nil }, nil
	})
	return true
}

// remember puts a message into the list of those in memory, forgetting takes it out.
func (e *engine) remember(m *message) {
	m.prev, m.next = e.list.prev, &e.list
	m.prev.next, e.list.prev = m, m
}

func (e *engine) forgetting(m *message) {
	m.prev.next, m.next.prev = m.next, m.prev
	m.prev, m.next = nil, nil
}

// inMemory tells which of the rows that are listed are messages in memory.
func (e *engine) inMemory() map[rowKey]bool {
	listed := map[rowKey]bool{}
	for _, r := range e.listing.Rows {
		listed[rowKey{r.Table, r.ID}] = false
	}
	for m := e.list.next; m != &e.list; m = m.next {
		k := rowKey{m.Table, m.ID}
		if _, ok := listed[k]; ok {
			listed[k] = true
		}
	}
	return listed
}
