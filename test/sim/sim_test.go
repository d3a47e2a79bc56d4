package sim_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tailbox/tailbox/test/sim"
)

var (
	seedFlag     = flag.Uint64("sim.seed", 0, "run this schedule alone; with -v it prints its trace")
	schedules    = flag.Int("sim.n", 0, "how many schedules to run (default 2000, or TAILBOX_SIM_SCHEDULES)")
	firstFlag    = flag.Uint64("sim.first", 1, "the first seed")
	allFlag      = flag.Bool("sim.all", false, "go on after a broken invariant, and list them all")
	countFlag    = flag.Bool("sim.duplicates", false, "count duplicates instead of judging them (for test/mutants)")
	announceFlag = flag.Bool("sim.announce", false, "print each seed before it runs, to find one that crashes the process")
)

// naiveSchedules is enough for every flaw of the naive relay to show.
const naiveSchedules = 1000

// run is one schedule in a bubble of its own.
func run(t *testing.T, subject sim.Subject, opts sim.Options) (r sim.Result) {
	t.Helper()
	if *announceFlag {
		fmt.Fprintln(os.Stderr, "sim: seed", opts.Seed)
	}
	synctest.Test(t, func(*testing.T) { r = sim.Schedule(subject, opts) })
	return r
}

// many runs schedules until one breaks an invariant, on several goroutines. It returns the sums, and the broken one.
func many(t *testing.T, subject sim.Subject, n int, opts sim.Options) (sim.Stats, uint64, error) {
	t.Helper()
	var mu sync.Mutex
	var sum sim.Stats
	var seed uint64
	var broken error
	next := opts.Seed
	t.Run("shards", func(t *testing.T) {
		for shard := range 4 {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					o := opts
					o.Seed = next
					next++
					stop := broken != nil && !*allFlag || o.Seed >= opts.Seed+uint64(n)
					mu.Unlock()
					if stop {
						return
					}
					r := run(t, subject, o)
					mu.Lock()
					sum.Add(r.Stats)
					if r.Violation != nil && *allFlag {
						fmt.Printf("seed %d: %v\n", o.Seed, r.Violation)
					}
					if r.Violation != nil && (broken == nil || o.Seed < seed) {
						broken, seed = r.Violation, o.Seed
					}
					mu.Unlock()
				}
			})
		}
	})
	return sum, seed, broken
}

// TestNaive: the simplest right relay passes.
func TestNaive(t *testing.T) {
	if *seedFlag != 0 {
		single(t, naiveRelay(""))
		return
	}
	stats, seed, err := many(t, naiveRelay(""), naiveSchedules, sim.Options{Seed: 1})
	if err != nil {
		t.Fatalf("seed %d: %v\nrun again: go test ./test/sim -run TestNaive -sim.seed=%d -v", seed, err, seed)
	}
	t.Logf("%+v", stats)
}

// TestFlaws: the oracle finds each flaw of a naive relay.
func TestFlaws(t *testing.T) {
	for _, flaw := range flaws {
		t.Run(flaw, func(t *testing.T) {
			_, seed, err := many(t, naiveRelay(flaw), naiveSchedules, sim.Options{Seed: 1})
			if err == nil {
				t.Fatalf("%d schedules did not find the flaw %q", naiveSchedules, flaw)
			}
			t.Logf("seed %d: %v", seed, err)
		})
	}
}

// TestRepeatable: one seed, one schedule.
func TestRepeatable(t *testing.T) {
	for seed := uint64(1); seed < 20; seed++ {
		var traces [2][]string
		for i := range traces {
			run(t, naiveRelay(""), sim.Options{Seed: seed, Trace: func(line string) { traces[i] = append(traces[i], line) }})
		}
		for i := range min(len(traces[0]), len(traces[1])) {
			if traces[0][i] != traces[1][i] {
				t.Fatalf("seed %d, line %d:\n%s\n%s", seed, i, traces[0][i], traces[1][i])
			}
		}
		if len(traces[0]) != len(traces[1]) {
			t.Fatalf("seed %d: %d lines, then %d", seed, len(traces[0]), len(traces[1]))
		}
	}
}

// single runs one schedule and shows it. A relay's select between two things that are ready at once is not the seed's to
// decide, so a schedule that broke may take a few tries to break again.
func single(t *testing.T, subject sim.Subject) {
	t.Helper()
	const tries = 100
	for try := range tries {
		var trace []string
		r := run(t, subject, sim.Options{Seed: *seedFlag, CountDuplicates: *countFlag, Trace: func(line string) { trace = append(trace, line) }})
		if r.Violation == nil && try < tries-1 {
			continue
		}
		if testing.Verbose() {
			for _, line := range trace {
				fmt.Println(line)
			}
		}
		if r.Violation != nil {
			t.Fatalf("seed %d: %v", *seedFlag, r.Violation)
		}
	}
}
