package sim_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/test/sim"
)

// The answers of a sink that fails, by class.
var failures = map[string]func() error{
	"rejected":      func() error { return sink.Rejected(errors.New("500")) },
	"unavailable":   func() error { return sink.Unavailable(errors.New("503")) },
	"unreachable":   func() error { return sink.Unreachable(errors.New("connection refused")) },
	"misconfigured": func() error { return sink.Misconfigured(errors.New("403")) },
	"throttled":     func() error { return sink.Throttled(errors.New("429"), 0) },
}

const (
	begins = 10 * time.Second // of most troubles
	ends   = 70 * time.Second
)

// latency of a call that is answered at once.
const took = 2 * time.Millisecond

func well() (time.Duration, error) { return took, nil }

// fourAttempts is the retry of most scenarios.
var fourAttempts = router.Retry{Attempts: 4, Initial: time.Second, Factor: 2, Max: 30 * time.Second, Jitter: "full"}

// oneAttempt is the smallest retry.
var oneAttempt = router.Retry{Attempts: 1, Initial: time.Second, Factor: 2, Max: 30 * time.Second, Jitter: "full"}

// steady is traffic in many groups.
func steady(rate int, to time.Duration) sim.Load {
	return sim.Load{To: to, Rate: rate, Groups: 50, Prefix: "g"}
}

// outcome sorts what became of messages: the dead, those that wait, and those that were delivered.
type outcome struct {
	dead, left, delivered []sim.Outcome
}

func play(t *testing.T, sc sim.Scenario) (o outcome) {
	t.Helper()
	if os.Getenv("TRACE") != "" {
		sc.Trace = func(line string) { fmt.Println(line) }
	}
	if sc.Sinks == nil {
		sc.Sinks = []string{"single"}
	}
	if sc.Seed == 0 {
		sc.Seed = 1
	}
	if sc.Retry.Attempts == 0 {
		sc.Retry = fourAttempts
	}
	var all []sim.Outcome
	var err error
	synctest.Test(t, func(*testing.T) { all, err = sim.Play(engine, sc) })
	if err != nil {
		t.Error(err)
	}
	for _, x := range all {
		switch {
		case x.Delivered:
			o.delivered = append(o.delivered, x)
		case x.State == checkpoint.StateDead:
			o.dead = append(o.dead, x)
		default:
			o.left = append(o.left, x)
		}
	}
	return o
}

// p99 is the latency of messages that were written in a time.
func (o outcome) p99(from, to time.Duration, match func(sim.Outcome) bool) time.Duration {
	var took []time.Duration
	for _, x := range o.delivered {
		if x.Written >= from && x.Written < to && (match == nil || match(x)) {
			took = append(took, x.Reached-x.Written)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// check compares how many died and how many still wait.
func (o outcome) check(t *testing.T, dead, left int) {
	t.Helper()
	if len(o.dead) != dead || len(o.left) != left {
		t.Errorf("%d died and %d wait, want %d and %d (%d delivered); dead %.300s; waiting %.300s", len(o.dead), len(o.left), dead, left,
			len(o.delivered), fmt.Sprintf("%+v", o.dead), fmt.Sprintf("%+v", o.left))
	}
}

// soon checks that all was delivered within a time of the trouble's end.
func (o outcome) soon(t *testing.T, end, within time.Duration) {
	t.Helper()
	for _, x := range o.delivered {
		if x.Written < end && x.Reached > end+within {
			t.Errorf("message %d was delivered %v after the outage", x.N, x.Reached-end)
			return
		}
	}
}

// An outage of the whole destination kills nothing, whatever its answers and the number of attempts, with and without a restart in it.
func TestOutageOfAll(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		for name, retry := range map[string]router.Retry{"four attempts": fourAttempts, "one attempt": oneAttempt} {
			for _, kills := range [][]time.Duration{nil, {40 * time.Second}} {
				t.Run(fmt.Sprint(class, "/", name, "/", len(kills), " kills"), func(t *testing.T) {
					t.Parallel()
					o := play(t, sim.Scenario{Load: []sim.Load{steady(20, 80*time.Second)}, Retry: retry, Kills: kills, End: 150 * time.Second,
						Answer: func(x sim.Try) (time.Duration, error) {
							if x.At >= begins && x.At < ends {
								return took, failure()
							}
							return well()
						}})
					o.check(t, 0, 0)
					o.soon(t, ends, time.Minute)
				})
			}
		}
	}
}

// So does one that never answers: calls end with their timeout.
func TestOutageOfTimeouts(t *testing.T) {
	t.Parallel()
	o := play(t, sim.Scenario{Load: []sim.Load{steady(20, 80*time.Second)}, End: 150 * time.Second,
		Answer: func(x sim.Try) (time.Duration, error) {
			if x.At >= begins && x.At < ends {
				return 2 * time.Second, failures["unavailable"]()
			}
			return well()
		}})
	o.check(t, 0, 0)
	o.soon(t, ends, time.Minute)
}

// One group alone: an outage kills one message at most, and none if the destination does not say that it rejects.
func TestOutageOfALoneLane(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			o := play(t, sim.Scenario{Load: []sim.Load{{To: 80 * time.Second, Rate: 10, Groups: 1}}, End: 150 * time.Second, OnExhausted: router.Skip,
				Answer: func(x sim.Try) (time.Duration, error) {
					if x.At >= begins && x.At < ends {
						return took, failure()
					}
					return well()
				}})
			most := 0
			if class == "rejected" {
				most = 1
			}
			if len(o.dead) > most || len(o.left) > 0 {
				t.Errorf("%d died and %d wait, want at most %d and none", len(o.dead), len(o.left), most)
			}
		})
	}
}

// A third of the calls fails at random: the destination works, so a message dies only if each of its attempts was among them. The oracle
// holds each death against the rule.
func TestOutageOfAThird(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, 2))
			o := play(t, sim.Scenario{Load: []sim.Load{steady(20, 80*time.Second)}, End: 150 * time.Second, OnExhausted: router.Skip,
				Answer: func(x sim.Try) (time.Duration, error) {
					if x.At >= begins && x.At < ends && rng.IntN(3) == 0 {
						return took, failure()
					}
					return well()
				}})
			// 1,200 messages, of which one in 81 fails four times in a row.
			if len(o.left) > 0 || len(o.dead) > 2*1200/81 {
				t.Errorf("%d died and %d wait", len(o.dead), len(o.left))
			}
			if class == "throttled" && len(o.dead) > 0 {
				t.Errorf("%d died by being throttled", len(o.dead))
			}
		})
	}
}

// Poison dies within its attempts, its group waits, and others are as fast as when it is calm: one, and 31 that come together.
func TestPoisonAmongTraffic(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		if class == "throttled" {
			continue // the sink rests as it is told
		}
		for _, poisons := range []int{1, 31} {
			for _, kills := range [][]time.Duration{nil, {begins + 500*time.Millisecond}} {
				t.Run(fmt.Sprint(class, "/", poisons, "/", len(kills), " kills"), func(t *testing.T) {
					t.Parallel()
					o := play(t, sim.Scenario{Kills: kills, End: 100 * time.Second,
						Load: []sim.Load{steady(20, 60*time.Second), {From: begins, To: begins + time.Second, Rate: poisons, Groups: poisons, Prefix: "poison "}},
						Answer: func(x sim.Try) (time.Duration, error) {
							if x.Group[0] == 'p' {
								return took, failure()
							}
							return well()
						}})
					o.check(t, poisons, 0)
					if p99 := o.p99(begins, 60*time.Second, nil); p99 > 20*time.Millisecond && kills == nil {
						t.Errorf("p99 of the others is %v", p99)
					}
				})
			}
		}
	}
}

// 31 poisons within an outage: they die after it, and nothing else does.
func TestPoisonWithinAnOutage(t *testing.T) {
	t.Parallel()
	o := play(t, sim.Scenario{End: 180 * time.Second,
		Load: []sim.Load{steady(20, 175*time.Second), {From: 30 * time.Second, To: 31 * time.Second, Rate: 31, Groups: 31, Prefix: "poison "}},
		Answer: func(x sim.Try) (time.Duration, error) {
			if x.Group[0] == 'p' || x.At >= begins && x.At < ends {
				return took, failures["unavailable"]()
			}
			return well()
		}})
	o.check(t, 31, 0)
	for _, x := range o.dead {
		if x.Group[0] != 'p' {
			t.Errorf("message %d of group %s died", x.N, x.Group)
		}
	}
}

// Poison alone, then good traffic behind all of it: what is healthy waits one round of probes for every eight heads ahead of it at most,
// and with the first that is delivered all poison dies.
func TestNearlyAllIsPoison(t *testing.T) {
	t.Parallel()
	const poisons = 200
	o := play(t, sim.Scenario{End: 1200 * time.Second,
		Load: []sim.Load{{To: 10 * time.Second, Rate: poisons / 10, Groups: poisons, Prefix: "poison "},
			{From: 20 * time.Second, To: 1000 * time.Second, Rate: 1, Groups: 7, Prefix: "g"}},
		Answer: func(x sim.Try) (time.Duration, error) {
			if x.Group[0] == 'p' {
				return took, failures["rejected"]()
			}
			return well()
		}})
	o.check(t, poisons, 0)
	for _, x := range o.delivered {
		if wait := x.Reached - x.Written; wait > (poisons/8+1)*30*time.Second {
			t.Fatalf("message %d waited for %v", x.N, wait)
		}
	}
}

// Two poisons and no other traffic: they wait. With the first traffic they die, and it flows.
func TestPoisonsAloneThenTraffic(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		if class == "throttled" {
			continue
		}
		for _, poisons := range []int{1, 2} {
			t.Run(fmt.Sprint(class, "/", poisons), func(t *testing.T) {
				t.Parallel()
				const hour = time.Hour
				o := play(t, sim.Scenario{End: hour + 3*time.Minute,
					Load: []sim.Load{{To: time.Second, Rate: poisons, Groups: poisons, Prefix: "poison "},
						{From: hour, To: hour + 2*time.Minute, Rate: 20, Groups: 10, Prefix: "g"}},
					Answer: func(x sim.Try) (time.Duration, error) {
						if x.Group[0] == 'p' {
							return took, failure()
						}
						return well()
					}})
				o.check(t, poisons, 0)
				if p99 := o.p99(hour+35*time.Second, hour+2*time.Minute, nil); p99 > 20*time.Millisecond {
					t.Errorf("p99 of the others is %v half a minute after they came", p99)
				}
			})
		}
	}
}

// An endpoint that takes arrays and answers them as a whole: an outage kills nothing, and poison in arrays is found.
func TestOutageOfArrays(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			poison := class != "throttled"
			o := play(t, sim.Scenario{Sinks: []string{"array"}, End: 200 * time.Second,
				Load: []sim.Load{steady(50, 100*time.Second), {From: 80 * time.Second, To: 81 * time.Second, Rate: 3, Groups: 3, Prefix: "poison "}},
				Answer: func(x sim.Try) (time.Duration, error) {
					if x.At >= begins && x.At < ends || poison && x.Group[0] == 'p' {
						return took, failure()
					}
					return well()
				}})
			dead := 0
			if poison {
				dead = 3
			}
			o.check(t, dead, 0)
		})
	}
}

// Every policy: retry never ends, skip and latest go on with the group.
func TestOutageAndPolicies(t *testing.T) {
	t.Parallel()
	for policy, dead := range map[router.OnExhausted]int{router.KeepOn: 0, router.Skip: 1, router.Latest: 0} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			o := play(t, sim.Scenario{OnExhausted: policy, End: 200 * time.Second,
				Load: []sim.Load{steady(50, 120*time.Second), {From: 5 * time.Second, To: 6 * time.Second, Rate: 1, Groups: 1, Prefix: "poison"}},
				Answer: func(x sim.Try) (time.Duration, error) {
					if x.Group[0] == 'p' || x.At >= begins && x.At < ends {
						return took, failures["unavailable"]()
					}
					return well()
				}})
			o.check(t, dead, 1-dead)
		})
	}
}

// Two sinks, one of which fails: the other one is as fast as when it is calm.
func TestOutageOfOneOfTwoSinks(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			o := play(t, sim.Scenario{Sinks: []string{"array", "single"}, Load: []sim.Load{steady(20, 80*time.Second)}, End: 150 * time.Second,
				Answer: func(x sim.Try) (time.Duration, error) {
					if x.Sink == "array" && x.At >= begins && x.At < ends {
						return took, failure()
					}
					return well()
				}})
			o.check(t, 0, 0)
			if p99 := o.p99(begins, ends, func(x sim.Outcome) bool { return x.Sink == "single" }); p99 > 20*time.Millisecond {
				t.Errorf("p99 of the other sink is %v", p99)
			}
		})
	}
}

// A sink with destinations: while one of two partitions fails, the other one flows.
func TestOutageOfAPartition(t *testing.T) {
	t.Parallel()
	for class, failure := range failures {
		if class == "throttled" {
			continue
		}
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			o := play(t, sim.Scenario{Sinks: []string{"wide"}, Load: []sim.Load{steady(20, 80*time.Second)}, End: 150 * time.Second,
				Answer: func(x sim.Try) (time.Duration, error) {
					if x.At >= begins && x.At < ends && sim.Partition(x.Group) == 1 {
						return took, failure()
					}
					return well()
				}})
			o.check(t, 0, 0)
			o.soon(t, ends, time.Minute)
			if p99 := o.p99(begins, ends, func(x sim.Outcome) bool { return sim.Partition(x.Group) == 0 }); p99 > 100*time.Millisecond {
				t.Errorf("p99 of the other partition is %v", p99)
			}
		})
	}
}
