package relay

import (
	"slices"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/relay/memory"
)

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
		e.list.Next, e.list.Prev = &e.list, &e.list
		has := map[*lane.Message]uint64{}
		for _, batch := range c.batches {
			mem := &memory.Batch{Left: len(batch), Bytes: 1000}
			for _, parts := range batch {
				m := &lane.Message{Message: &outbox.Message{}, Batch: mem, Left: parts[0]}
				has[m] = parts[1]
				e.remember(m)
			}
		}
		got := keptBy(&e.list, 3, func(m *lane.Message) uint64 { return m.Left }, func(m *lane.Message) uint64 { return has[m] })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
