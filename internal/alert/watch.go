package alert

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Role is what a process does for its pipeline.
type Role uint8

// The roles.
const (
	Leading    Role = iota // it relays
	StandingBy             // another process relays
	Idle                   // it does not relay, and knows of no other that does
	Ending                 // it is about to end
)

// Facts are what a process knows at one moment.
type Facts struct {
	Role Role
	// State is what the process says of itself, in a word.
	State string
	// Failing are the sinks that take nothing. Undelivered is the age of the oldest message that a sink has not taken.
	Failing     map[string]bool
	Undelivered map[string]time.Duration
	// Lag is how far reading is behind.
	Lag time.Duration
	// Restarts counts how often this process has begun to read again.
	Restarts int
	// Causes counts what died since this process began, by sink and class of error.
	Causes map[string]map[string]int
	// Status is what the database said last; nil if it is not known now.
	Status *report.Status
}

// Config is what a Watch is made of.
type Config struct {
	// Sinks are the names of all sinks.
	Sinks  []string
	Limits Limits
	// Repeat is after how long a message is repeated while its condition holds; 0: never.
	Repeat time.Duration
	// Steady is how long a condition has to be gone before it is over, how long a backlog has to last, and for how long a relay that begins sends
	// nothing: what a start brings with it, such as a lag, is over soon.
	Steady time.Duration
}

// restartWindow is how long a restart counts.
const restartWindow = 10 * time.Minute

// A Watch knows the alerts of one process.
type Watch struct {
	cfg    Config
	alerts map[Key]*alert
	// leads is whether this process relayed at the last look, and notBefore until when a relay that has just begun sends nothing.
	leads     bool
	notBefore time.Time
	// restarts are the times of the last restarts, and counted how many were seen.
	restarts []time.Time
	counted  int
	// uncounted: nobody has looked for restarts so far, so that those before the next look do not count.
	uncounted bool
	// status is the one that held and holds were made of. held are the lanes that an operator holds, with when that was first seen: the database does not
	// say since when. holds are the same by sink.
	status *report.Status
	held   map[checkpoint.Lane]time.Time
	holds  map[string]*hold
}

// A hold is what an operator holds at one sink.
type hold struct {
	since  time.Time // of the oldest
	groups int
	names  string // of the first
}

// NewWatch makes a Watch to which nothing is wrong.
func NewWatch(c Config) *Watch {
	return &Watch{cfg: c, alerts: map[Key]*alert{}}
}

// Look takes over facts, and returns what has to be sent. now must not go back.
func (w *Watch) Look(now time.Time, f *Facts) (send []Message) {
	add := func(m Message) { send = append(send, m) }
	w.countRestarts(now, f.Restarts)
	if f.Role == Leading && !w.leads {
		w.notBefore = now.Add(w.cfg.Steady)
	}
	w.leads = f.Role == Leading
	switch f.Role {
	case Ending:
		return w.leave(now, func(Key) bool { return true })
	case StandingBy:
		send = w.leave(now, func(k Key) bool { return k.Condition != NoLeader })
	}
	w.look(now, Key{Condition: NoLeader}, f.Role == Idle, 0, f.State, add)
	if f.Role != Leading {
		return send
	}
	w.lookAtProcess(now, f, add)
	if f.Status != nil {
		w.lookAtDatabase(now, f, add)
	}
	return send
}

// lookAtProcess looks at what the process itself knows.
func (w *Watch) lookAtProcess(now time.Time, f *Facts, add func(Message)) {
	for _, sink := range w.cfg.Sinks {
		w.look(now, Key{SinkFailing, sink}, f.Failing[sink], 0, "", add)
		w.measure(now, Key{Undelivered, sink}, int64(f.Undelivered[sink]), "", add)
	}
	w.measure(now, Key{Condition: Lagging}, int64(f.Lag), "", add)
	w.measure(now, Key{Condition: Lag}, int64(f.Lag), "", add)
}

// lookAtDatabase looks at what the database says.
func (w *Watch) lookAtDatabase(now time.Time, f *Facts, add func(Message)) {
	r := f.Status
	if r != w.status {
		w.status = r
		w.rememberHeld(now, r.Held)
	}
	counts := map[string]*report.SinkCount{}
	var dead, backlog int
	for i := range r.Sinks {
		c := &r.Sinks[i]
		counts[c.Sink] = c
		dead, backlog = dead+c.Dead, backlog+c.Retrying+c.Waiting
	}
	for _, sink := range slices.Concat(w.cfg.Sinks, []string{""}) {
		c := counts[sink]
		if c == nil {
			c = &report.SinkCount{}
		}
		w.measure(now, Key{DeadLetters, sink}, int64(c.Dead), causes(f.Causes[sink]), add)
		age, detail := w.oldestHeld(now, sink, c)
		w.measure(now, Key{Held, sink}, int64(age), detail, add)
	}
	w.measure(now, Key{Condition: ManyDead}, int64(dead), "", add)
	w.measure(now, Key{Condition: VeryManyDead}, int64(dead), "", add)
	w.measure(now, Key{Condition: Backlog}, int64(backlog), "", add)
	retained, share := pinned(r)
	w.measure(now, Key{Condition: RetainedLog}, retained, "", add)
	w.measure(now, Key{Condition: RetainedShare}, share, report.Bytes(r.RetainedLimit), add)
	restarts := int64(len(w.restarts))
	if r.Checkpoint != nil {
		// The start that is running counts until it has settled something.
		restarts += doubled(int64(r.Checkpoint.UncleanStarts-1), w.cfg.Limits[Restarts].Value)
	}
	w.measure(now, Key{Condition: Restarts}, restarts, "", add)
}

// pinned returns how much log the server keeps for the pipeline alone, and how much that is of what it keeps at most, in percent; 0 if there is no slot, or no
// limit.
func pinned(r *report.Status) (retained, share int64) {
	if r.RetainedBytes < 0 {
		return 0, 0
	}
	if r.RetainedLimit > 0 {
		share = int64(math.Ceil(float64(r.RetainedBytes) / float64(r.RetainedLimit) * 100))
	}
	return r.RetainedBytes, share
}

// doubled returns n if it is limit, twice limit, four times, and so on; else 0. A process that dies again and again forgets each time what it has sent, and
// would send the same at each start.
func doubled(n, limit int64) int64 {
	for v := max(1, limit); v <= n; v *= 2 {
		if v == n {
			return n
		}
	}
	return 0
}

// measure looks at a value.
func (w *Watch) measure(now time.Time, k Key, value int64, detail string, add func(Message)) {
	w.look(now, k, rules[k.Condition].exceeds(value, w.cfg.Limits[k.Condition].Value), value, detail, add)
}

// look looks at one condition.
func (w *Watch) look(now time.Time, k Key, holds bool, value int64, detail string, add func(Message)) {
	limit := w.cfg.Limits[k.Condition]
	a := w.alerts[k]
	if limit.Off || a == nil && !holds {
		return
	}
	if a == nil {
		a = &alert{}
		w.alerts[k] = a
	}
	t := timing{toClear: w.cfg.Steady, repeat: w.cfg.Repeat}
	switch r := &rules[k.Condition]; {
	case r.lasting:
		t.toFire = time.Duration(limit.Value)
	case r.steady:
		t.toFire = w.cfg.Steady
	}
	if !rules[k.Condition].always {
		t.notBefore = w.notBefore
	}
	kind, send := a.look(now, holds, &t)
	if holds { // what is over is reported with what it was
		a.value, a.detail = value, detail
		if rules[k.Condition].lasting {
			a.value = int64(now.Sub(a.since))
		}
	}
	if send {
		add(w.message(now, k, a, kind))
	}
	if a.state == quiet {
		delete(w.alerts, k)
	}
}

func (w *Watch) message(now time.Time, k Key, a *alert, kind Kind) Message {
	m := Message{Key: k, Kind: kind, At: now, Since: a.since, Value: a.value, Limit: w.cfg.Limits[k.Condition].Value, Detail: a.detail}
	if kind == Over {
		m.Until = a.goneAt
	}
	return m
}

// Change goes on with another configuration. It returns a message for each alert that was sent and that nobody watches any more.
func (w *Watch) Change(now time.Time, c Config) (send []Message) {
	send = w.leave(now, func(k Key) bool {
		return c.Limits[k.Condition].Off || k.Sink != "" && !slices.Contains(c.Sinks, k.Sink)
	})
	w.uncounted = w.uncounted || w.cfg.Limits[Restarts].Off
	w.cfg = c
	return send
}

// leave ends the watch over some alerts, and returns a message for each that was sent.
func (w *Watch) leave(now time.Time, which func(Key) bool) (send []Message) {
	for _, k := range w.keys() {
		if !which(k) {
			continue
		}
		a := w.alerts[k]
		if kind, told := a.enter(now, leave, &timing{}); told {
			send = append(send, w.message(now, k, a, kind))
		}
		delete(w.alerts, k)
	}
	return send
}

// keys are those of all alerts, in order.
func (w *Watch) keys() []Key {
	return slices.SortedFunc(maps.Keys(w.alerts), func(a, b Key) int {
		if a.Condition != b.Condition {
			return int(a.Condition) - int(b.Condition)
		}
		return strings.Compare(a.Sink, b.Sink)
	})
}

// countRestarts remembers when the relay began to read again, as many times as the limit asks for.
func (w *Watch) countRestarts(now time.Time, n int) {
	most := max(1, int(w.cfg.Limits[Restarts].Value))
	if w.uncounted {
		w.counted, w.uncounted = n, false
	}
	for range min(n-w.counted, most) {
		w.restarts = append(w.restarts, now)
	}
	w.counted = max(n, w.counted)
	if extra := len(w.restarts) - most; extra > 0 {
		w.restarts = slices.Delete(w.restarts, 0, extra)
	}
	w.restarts = slices.DeleteFunc(w.restarts, func(at time.Time) bool { return now.Sub(at) >= restartWindow })
}

// most is how many groups a message names, and longest how many bytes of each.
const (
	most    = 5
	longest = 80
)

// rememberHeld takes over which lanes are held. A group that is held at every sink belongs to the sink "".
func (w *Watch) rememberHeld(now time.Time, lanes []checkpoint.Lane) {
	was, names := w.held, map[string][]string{}
	w.held, w.holds = make(map[checkpoint.Lane]time.Time, len(lanes)), map[string]*hold{}
	for _, lane := range lanes {
		at, ok := was[lane]
		if !ok {
			at = now
		}
		w.held[lane] = at
		h := w.holds[lane.Sink]
		if h == nil {
			h = &hold{since: at}
			w.holds[lane.Sink] = h
		}
		if at.Before(h.since) {
			h.since = at
		}
		h.groups++
		names[lane.Sink] = append(names[lane.Sink], lane.Group)
	}
	for sink, h := range w.holds {
		all := names[sink]
		slices.Sort(all)
		first := all[:min(most, len(all))]
		for i := range first {
			first[i] = short(first[i])
		}
		h.names = strings.Join(first, ", ")
		if n := len(all) - most; n > 0 {
			h.names += fmt.Sprintf(", and %d more", n)
		}
	}
}

// oldestHeld returns for how long the oldest group of a sink has waited for an operator, and which groups an operator holds there.
func (w *Watch) oldestHeld(now time.Time, sink string, c *report.SinkCount) (age time.Duration, detail string) {
	age = time.Duration(c.HeldSeconds * float64(time.Second))
	waiting := c.HeldLanes
	if h := w.holds[sink]; h != nil {
		age, waiting = max(age, now.Sub(h.since)), max(waiting, h.groups)
		detail = " (held by an operator: " + h.names + ")"
	}
	return age, many(int64(waiting), "group", "groups") + detail
}

// short is a name in one line of bounded length.
func short(name string) string {
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return strings.Join(strings.Fields(strings.Map(printable, name)), " ")
}

// causes lists classes of errors with how often each occurred.
func causes(byClass map[string]int) string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		parts = append(parts, fmt.Sprintf("%s %d", class, byClass[class]))
	}
	return strings.Join(parts, ", ")
}
