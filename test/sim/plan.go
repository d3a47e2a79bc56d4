package sim

import (
	"math/rand/v2"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

// A Route is one route of the pipeline under test: messages of Type go to the sinks To.
type Route struct {
	Type        string
	To          []string
	Retry       router.Retry
	OnExhausted router.OnExhausted
}

// A Plan is what one schedule is made of, drawn from its seed: the pipeline's configuration, and how unkind the
// world is.
type Plan struct {
	Routes          []Route
	Memory          int64
	Reconcile       time.Duration
	Tick            time.Duration
	ShutdownTimeout time.Duration

	tables   []*table
	messages int // how many the application writes
	steps    int // before the quiet phase
	groups   int

	// Shares of a hundred.
	awaitShare, actShare, atOnce           int
	lateVisible, sinkFault, storeFault     int
	noGroup, odd                           int      // odd: available_at, faults, unroutable, poison
	slow                                   callKind // calls that take long in this schedule; callKinds = none
	kills, stops, cuts, restarts, slotLost int      // how often at most
	failovers, standbys, verbs, sql        int
	initialised                            bool // init made the first checkpoint
	reloads                                int  // how often at most
}

// A table is one outbox table of the application.
type table struct {
	name        string
	onDelivered outbox.OnDelivered
}

// sinkNames in their order everywhere. wide is partitioned and takes runs, single answers per message, array answers a
// run as a whole.
func sinkNames() [sinks]string { return [sinks]string{"array", "single", "wide"} }

const sinks = 3

func sinkIndex(name string) int {
	for i, n := range sinkNames() {
		if n == name {
			return i
		}
	}
	return -1
}

func drawPlan(rng *rand.Rand) *Plan {
	p := &Plan{
		Memory: 64 << 20, Tick: time.Second, ShutdownTimeout: 5 * time.Second,
		Reconcile: 20 * time.Second,
		messages:  4 + rng.IntN(24), steps: 120 + rng.IntN(360), groups: 1 + rng.IntN(4),
		awaitShare: 55 + rng.IntN(40), actShare: 30 + rng.IntN(50), atOnce: rng.IntN(100),
		lateVisible: rng.IntN(60), sinkFault: rng.IntN(50), storeFault: rng.IntN(4),
		noGroup: rng.IntN(25), initialised: rng.IntN(3) > 0,
	}
	p.slow = callKind(rng.IntN(int(callKinds) + 1))
	if rng.IntN(4) == 0 {
		p.Memory = 8 << 10
	}
	for _, limit := range []struct {
		at         *int
		share, max int
	}{
		{&p.kills, 70, 4}, {&p.stops, 30, 2}, {&p.cuts, 50, 3}, {&p.restarts, 30, 2}, {&p.slotLost, 30, 2},
		{&p.failovers, 10, 1}, {&p.standbys, 15, 1}, {&p.verbs, 50, 10}, {&p.sql, 30, 5}, {&p.odd, 40, 20},
	} {
		if rng.IntN(100) < limit.share {
			*limit.at = 1 + rng.IntN(limit.max)
		}
	}
	p.tables = drawTables(rng)
	p.Routes = drawRoutes(rng)
	return p
}

// reloadSeed tells the draws of reloads from those of all else.
const reloadSeed = 0x72656c6f6164

// drawReloads lets the configuration be read again in a third of the schedules.
func (p *Plan) drawReloads(rng *rand.Rand) {
	if rng.IntN(3) == 0 {
		p.reloads = 1 + rng.IntN(8)
	}
}

func drawTables(rng *rand.Rand) []*table {
	all := []*table{{"public.del", outbox.Delete}, {"public.mrk", outbox.Mark}, {"public.kep", outbox.Keep}}
	switch rng.IntN(8) {
	case 0, 1, 2:
		return all[:1]
	case 3, 4:
		return all[1:2]
	case 5, 6:
		return all[:2]
	}
	return all
}

// drawRoutes makes a route a type; type z is routed nowhere.
func drawRoutes(rng *rand.Rand) []Route {
	policies := []router.OnExhausted{"", router.Hold, router.KeepOn, router.Skip, router.Latest}
	route := func(typ string, to ...string) Route {
		r := router.Retry{Attempts: 1 + rng.IntN(5), Initial: 500 * time.Millisecond, Factor: 3, Max: 5 * time.Second, Jitter: "full"}
		if rng.IntN(4) == 0 {
			r.Jitter = "none"
		}
		return Route{Type: typ, To: to, Retry: r, OnExhausted: policies[rng.IntN(len(policies))]}
	}
	return []Route{
		route("a", "wide"), route("b", "single"), route("ab", "wide", "single"), route("c", "array", "wide"),
		route("abc", "array", "single", "wide"),
	}
}

func (p *Plan) route(typ string) *Route {
	for i := range p.Routes {
		if p.Routes[i].Type == typ {
			return &p.Routes[i]
		}
	}
	return nil
}

// Kept reports whether the rows of a table stay as they are.
func (p *Plan) Kept(name string) bool {
	for _, t := range p.tables {
		if t.name == name {
			return t.onDelivered == outbox.Keep
		}
	}
	return false
}
