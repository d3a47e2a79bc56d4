package stream

import (
	"math"
	"testing"

	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

func TestStandbyGate(t *testing.T) {
	t.Parallel()
	var g standbyGate
	at := func(at pgrepl.LSN) []upstream.StandbySlot {
		return []upstream.StandbySlot{{Name: "a", At: at}, {Name: "b", At: 1000}}
	}
	for i, step := range []struct {
		confirmed, end pgrepl.LSN
		list           []upstream.StandbySlot
		want           uint64
	}{
		{10, 20, at(15), 0},
		{12, 30, at(19), 0},
		{12, 40, at(20), 10}, // the standby has what 10 stands for
		{12, 40, at(39), 10},
		{14, 50, at(40), 12},
		{14, 60, at(70), 14},
		{14, 60, nil, math.MaxUint64}, // nothing to wait for
		{16, 80, at(70), 16},          // a new setting takes back nothing that the server heard
		{17, 80, at(80), 17},
	} {
		g.look(step.confirmed, step.end, step.list)
		if got := g.passed.Load(); got != step.want {
			t.Errorf("step %d: passed %d, want %d", i, got, step.want)
		}
	}
}
