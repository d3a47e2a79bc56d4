package alert

import (
	"slices"
	"testing"
	"time"
)

// TestChange: with another configuration, what still holds is not told again, its end is, and what nobody watches any more is left.
func TestChange(t *testing.T) {
	t.Parallel()
	c := Config{Sinks: []string{"a", "b"}, Limits: DefaultLimits(), Repeat: time.Hour, Steady: time.Minute}
	w := NewWatch(c)
	var told []string
	tell := func(ms []Message) {
		for i := range ms {
			told = append(told, ms[i].Kind.String()+" "+ms[i].Key.Condition.String()+" "+ms[i].Key.Sink)
		}
	}
	look := func(at int, words ...string) {
		t.Helper()
		tell(w.Look(start().Add(time.Duration(at)*time.Second), factsOf(t, append([]string{"leads"}, words...))))
	}
	look(0)
	look(100, "dead:a=1", "dead:b=1", "log=5")
	look(101, "dead:a=1", "dead:b=1", "log=5")
	c.Sinks = []string{"b", "c"}
	c.Limits[RetainedLog].Off = true
	tell(w.Change(start().Add(102*time.Second), c))
	look(103, "dead:b=1", "log=5")
	look(104)
	look(200)
	want := []string{"firing dead_letters a", "firing dead_letters b", "firing retained_log ", "left dead_letters a", "left retained_log ", "over dead_letters b"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestChangeToAlerts: restarts from before somebody looked for them are none of now.
func TestChangeToAlerts(t *testing.T) {
	t.Parallel()
	c := Config{Limits: DefaultLimits(), Steady: time.Minute}
	off := c
	for i := range off.Limits {
		off.Limits[i].Off = true
	}
	w := NewWatch(off)
	w.Change(start(), c)
	if got := w.Look(start().Add(time.Second), factsOf(t, []string{"leads", "again=5"})); len(got) > 0 {
		t.Errorf("told %v", got)
	}
	if got := w.Look(start().Add(2*time.Second), factsOf(t, []string{"leads", "again=8"})); len(got) != 1 || got[0].Key.Condition != Restarts {
		t.Errorf("three restarts: told %v", got)
	}
}
