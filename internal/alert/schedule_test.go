package alert

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source/store/report"
)

// An entry is what one look said of one alert.
type entry struct {
	at           time.Time
	known, holds bool
	leave        bool
	notBefore    time.Time
}

// expected finds out anew from the whole history what has to be sent after each look. It knows no states.
func expected(h []entry, toFire, steady, repeat time.Duration) []string {
	out := make([]string, len(h))
	var told bool
	var first int // no look before it counts any more
	var due time.Time
	// began is the first of the looks, back from i, that all said the same.
	began := func(i int, holds bool) time.Time {
		at := h[i].at
		for j := i; j >= first; j-- {
			if h[j].known && h[j].holds != holds {
				break
			}
			if h[j].known {
				at = h[j].at
			}
		}
		return at
	}
	for i, e := range h {
		switch {
		case e.leave:
			if told {
				out[i] = "left"
			}
			told, first = false, i+1
		case !e.known:
		case !told && e.holds:
			if e.at.Sub(began(i, true)) >= toFire && !e.at.Before(e.notBefore) {
				out[i], told, due = "firing", true, e.at.Add(repeat)
			}
		case told && e.holds:
			if !e.at.Before(due) {
				out[i] = "repeated"
				for due = due.Add(repeat); !e.at.Before(due); due = e.at.Add(repeat) {
				}
			}
		case told:
			if e.at.Sub(began(i, false)) >= steady {
				out[i], told, first = "over", false, i+1
			}
		}
	}
	return out
}

// watched are the alerts that random schedules are judged by.
func watched() []Key {
	return []Key{{SinkFailing, "a"}, {DeadLetters, "a"}, {DeadLetters, ""}, {Undelivered, "b"}, {Condition: Backlog}, {Condition: Lag}, {Condition: NoLeader}}
}

// A schedule is a random history of a process.
type schedule struct {
	r     *rand.Rand
	cfg   Config
	facts Facts
	dead  int
	back  int
	gone  int
}

func newSchedule(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 1))
	limits := DefaultLimits()
	limits[SinkFailing].Value = int64(r.IntN(90)) * int64(time.Second)
	return &schedule{r: r, cfg: Config{Sinks: []string{"a", "b"}, Limits: limits, Repeat: time.Duration(1+r.IntN(300)) * time.Second, Steady: time.Duration(r.IntN(60)) * time.Second},
		facts: Facts{Failing: map[string]bool{}, Undelivered: map[string]time.Duration{}}}
}

// step changes some facts. calm: nothing is wrong any more.
func (s *schedule) step(calm bool) *Facts {
	flip := func(odds int) bool { return s.r.IntN(odds) == 0 }
	if flip(40) {
		s.facts.Role = []Role{Leading, Leading, StandingBy, Idle, Ending}[s.r.IntN(5)]
	}
	if flip(6) {
		s.facts.Failing["a"] = !s.facts.Failing["a"]
	}
	if flip(8) {
		s.dead, s.gone = s.r.IntN(3), s.r.IntN(2)
	}
	if flip(8) {
		s.back = 900 + s.r.IntN(200)
	}
	if flip(5) {
		s.facts.Undelivered["b"] = time.Duration(200+s.r.IntN(200)) * time.Second
		s.facts.Lag = time.Duration(s.r.IntN(120)) * time.Second
	}
	known := !flip(7)
	if calm {
		s.facts = Facts{Role: Leading, Failing: map[string]bool{}, Undelivered: map[string]time.Duration{}}
		s.dead, s.gone, s.back, known = 0, 0, 0, true
	}
	f := s.facts
	if known {
		f.Status = report.NewStatus(&report.Report{Sinks: []report.SinkCount{{Sink: "a", Dead: s.dead, Waiting: s.back}, {Dead: s.gone}}}, nil)
	}
	return &f
}

// entryOf says what facts say of an alert, in plain words.
func (s *schedule) entryOf(k Key, at time.Time, f *Facts, notBefore time.Time) entry {
	e := entry{at: at, known: f.Role == Leading, notBefore: notBefore}
	switch k.Condition {
	case NoLeader:
		return entry{at: at, known: f.Role != Ending, holds: f.Role == Idle, leave: f.Role == Ending}
	case SinkFailing:
		e.holds = f.Failing["a"]
	case Undelivered:
		e.holds = f.Undelivered["b"] > 5*time.Minute
	case Lag:
		e.holds = f.Lag > time.Minute
	default:
		e.known = e.known && f.Status != nil
		e.holds = k.Condition == Backlog && s.back > 1000 || k.Condition == DeadLetters && (k.Sink == "a" && s.dead > 0 || k.Sink == "" && s.gone > 0)
	}
	e.leave = f.Role == Ending || f.Role == StandingBy
	return e
}

// toFire is how long a condition has to hold.
func (s *schedule) toFire(c Condition) time.Duration {
	switch c {
	case SinkFailing, NoLeader:
		return time.Duration(s.cfg.Limits[c].Value)
	case Backlog:
		return s.cfg.Steady
	}
	return 0
}

// TestSchedules runs random histories: everything is sent when it has to be, and nothing else is.
func TestSchedules(t *testing.T) {
	t.Parallel()
	schedules := 2000
	if testing.Short() {
		schedules = 200
	}
	counts := map[string]int{}
	for seed := range schedules {
		s := newSchedule(uint64(seed))
		w := NewWatch(s.cfg)
		now, leads, notBefore := start(), false, time.Time{}
		history, got := map[Key][]entry{}, map[Key][]string{}
		steps := 40 + s.r.IntN(160)
		for i := range steps {
			now = now.Add(time.Duration(s.r.IntN(20_000)) * time.Millisecond)
			if i == steps-1 { // what is gone for long is over
				now = now.Add(time.Hour)
			}
			f := s.step(i >= steps-2)
			if f.Role == Leading && !leads {
				notBefore = now.Add(s.cfg.Steady)
			}
			leads = f.Role == Leading
			sent := map[Key]string{}
			for _, m := range w.Look(now, f) {
				judge(t, &m)
				if sent[m.Key] != "" {
					t.Fatalf("schedule %d, look %d: %v is sent twice: %s and %s", seed, i, m.Key, sent[m.Key], m.Kind)
				}
				sent[m.Key] = m.Kind.String()
				counts[m.Kind.String()]++
			}
			for _, k := range watched() {
				history[k] = append(history[k], s.entryOf(k, now, f, notBefore))
				got[k] = append(got[k], sent[k])
			}
		}
		for _, k := range watched() {
			want := expected(history[k], s.toFire(k.Condition), s.cfg.Steady, s.cfg.Repeat)
			if !slices.Equal(got[k], want) {
				t.Fatalf("schedule %d: %s %q\n got %q\nwant %q", seed, k.Condition, k.Sink, got[k], want)
			}
		}
		if len(w.alerts) > 0 {
			t.Fatalf("schedule %d: %d alerts are left when nothing is wrong", seed, len(w.alerts))
		}
	}
	for _, kind := range []Kind{Fired, Repeated, Over, Left} {
		if counts[kind.String()] < schedules/10 {
			t.Errorf("only %d messages %s in %d schedules: the schedules test nothing", counts[kind.String()], kind, schedules)
		}
	}
}

// judge looks at one message: it can be read, and its times are in order.
func judge(t *testing.T, m *Message) {
	t.Helper()
	place := Place{Pipeline: "shop", Console: "https://relay.example"}
	if subject := place.Subject(m); strings.ContainsAny(subject, "\r\n") || !strings.Contains(subject, "shop") {
		t.Fatalf("subject %q", subject)
	}
	line := place.JSON(m)
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil || strings.Contains(string(line), "\n") || fields["alert"] != m.Condition.String() {
		t.Fatalf("fields %s: %v", line, err)
	}
	if m.Since.After(m.At) || m.Kind == Over && (m.Until.After(m.At) || m.Until.Before(m.Since)) {
		t.Fatalf("times of %s: %s", fmt.Sprint(m.Key), line)
	}
}
