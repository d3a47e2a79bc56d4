package hostile

import (
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/e2e"
)

// TestLiars puts a server that misbehaves in the place of each kind of destination, and the good one back: nothing dies of that, and everything arrives.
func TestLiars(t *testing.T) {
	t.Parallel()
	for _, sink := range sinks() {
		t.Run(sink, func(t *testing.T) {
			t.Parallel()
			// A group that is alone at its destination may lose a message in an outage, so the first row is retried when the others are there.
			s := newStage(t, "postgres", "{schedule: [1s, 1s]}", newDestination(t, sink, true))
			l := newLiar(t)
			all := lies(sink)
			for name := range sorted(all) {
				if len(all) > shortLies && s.rand.IntN(len(all)) >= shortLies {
					continue // the long test has all of them
				}
				s.lie(l, name, all[name])
			}
			s.refuseSome()
			s.endAmidLie(l, s.stop)
			s.endAmidLie(l, func() { s.relay.Kill() })
			s.stop()
			s.report()
		})
	}
}

// lie has the server lie for a while.
func (s *stage) lie(l *liar, name string, lie lie) {
	s.tb.Helper()
	began := time.Now()
	l.tell(lie)
	s.dest.proxy.Redirect(l.addr)
	s.newRound()
	s.awaitMet(l)
	e2e.Pause(lieFor)
	s.dest.proxy.Redirect("")
	l.tell(nil)
	s.bed.MustCommand("sink", "resume", "out")
	good := time.Now()
	s.awaitGood(name)
	s.checkSize()
	s.tb.Logf("%s: %.1f s, and %.1f s until all was delivered; peak memory %d MiB", name, good.Sub(began).Seconds(), time.Since(good).Seconds(), s.peak>>20)
}

// newRound writes good rows alone.
func (s *stage) newRound() {
	s.tb.Helper()
	s.round++
	s.logged, s.before = s.logSize(), len(s.hostile)+len(s.good)
	for i := range goodRows {
		s.writeGood(i)
	}
}

func (s *stage) awaitMet(l *liar) {
	s.tb.Helper()
	s.bed.Eventually(time.Minute, func() string {
		if l.heard() == 0 {
			return "the relay has not connected to the liar"
		}
		return ""
	})
}

// refuseSome has the server refuse some messages for so long that they are given up, and wants the others to be delivered meanwhile. An operator
// brings the dead ones back.
func (s *stage) refuseSome() {
	s.tb.Helper()
	if s.dest.refuse == nil {
		return
	}
	bad := func(id string) bool { return crc32.ChecksumIEEE([]byte(id))%5 == 0 }
	s.dest.refuse(bad)
	s.newRound()
	s.bed.Eventually(10*time.Second, func() string {
		for _, id := range s.good {
			if !bad(id) && s.dest.got.has(id) == 0 && !s.behind(id, bad) {
				return fmt.Sprintf("%s was not delivered while others are refused", id)
			}
		}
		return ""
	})
	s.dest.refuse(func(string) bool { return false })
	s.bed.MustCommand("sink", "resume", "out")
	s.bed.Eventually(30*time.Second, func() string {
		missing := s.missingGood()
		if missing != "" {
			s.bed.Command("dead", "replay", "--sink", "out", "--all") // it fails if none is dead
		}
		return missing
	})
}

// behind reports whether a row of the round waits for one of its group that is refused.
func (s *stage) behind(id string, bad func(id string) bool) bool {
	var round, n int
	if _, err := fmt.Sscanf(id, "good-%d-%d", &round, &n); err != nil {
		s.tb.Fatal(err)
	}
	for ; n >= 0; n -= goodGroups {
		if bad(fmt.Sprintf("good-%d-%d", round, n)) {
			return true
		}
	}
	return false
}

// endAmidLie ends the relay while its server says nothing, and starts it again.
func (s *stage) endAmidLie(l *liar, end func()) {
	s.tb.Helper()
	l.tell(silent(""))
	s.dest.proxy.Redirect(l.addr)
	s.newRound()
	s.awaitMet(l)
	end()
	s.dest.proxy.Redirect("")
	s.relay = s.bed.Start(nil)
	s.bed.Eventually(30*time.Second, s.missingGood)
}
