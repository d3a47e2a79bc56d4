package relay

import (
	"slices"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// A sink starves that is idle nearly all the time, with a batch now and then; not one that is idle part of the time, or whose
// relay was stopped for a while.
func TestHunger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		idle, took time.Duration // at each check
		checks     int
		starves    bool
	}{
		{time.Second, time.Second, 4, false},
		{time.Second, time.Second, 5, true},
		{950 * time.Millisecond, time.Second, 7, true},
		{800 * time.Millisecond, time.Second, 1000, false},
		{200 * time.Millisecond, time.Second, 1000, false},
		{time.Second, time.Minute, 1000, false},
	} {
		var h hunger
		for range c.checks {
			h.spell = c.idle
			h.level = h.next(c.took)
		}
		if starves := h.level >= parkAfter; starves != c.starves {
			t.Errorf("idle for %v of %v, %d times: starves %t, want %t", c.idle, c.took, c.checks, starves, c.starves)
		}
	}
}

// One message that a sink has not taken keeps its whole batch; of what only that sink gets it is told apart.
func TestKeptBy(t *testing.T) {
	t.Parallel()
	const a, b = 1 << 1, 1 << 2
	size := int64((&outbox.Message{}).Size())
	for name, c := range map[string]struct {
		batches [][][2]uint64 // of each message, what is left and what it has
		want    []keeping
	}{
		"nothing":             {nil, []keeping{{}, {}, {}}},
		"one of a batch":      {[][][2]uint64{{{0, b}, {a, a}, {0, b}}}, []keeping{{}, {1000, size}, {}}},
		"one of each batch":   {[][][2]uint64{{{a, a}}, {{a, a}}}, []keeping{{}, {2000, 2 * size}, {}}},
		"two of one batch":    {[][][2]uint64{{{a, a}, {b, b}}}, []keeping{{}, {1000, size}, {1000, size}}},
		"one for both":        {[][][2]uint64{{{a | b, a | b}}}, []keeping{{}, {1000, 0}, {1000, 0}}},
		"the other has taken": {[][][2]uint64{{{a, a | b}}}, []keeping{{}, {1000, 0}, {}}},
		"all is taken":        {[][][2]uint64{{{0, a}}, {{0, a | b}}}, []keeping{{}, {}, {}}},
	} {
		var e engine
		e.list.next, e.list.prev = &e.list, &e.list
		has := map[*message]uint64{}
		for _, batch := range c.batches {
			mem := &batchMemory{left: len(batch), bytes: 1000}
			for _, parts := range batch {
				m := &message{Message: &outbox.Message{}, batch: mem, left: parts[0]}
				has[m] = parts[1]
				e.remember(m)
			}
		}
		got := keptBy(&e.list, 3, func(m *message) uint64 { return m.left }, func(m *message) uint64 { return has[m] })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
