package admin

import (
	"cmp"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/relay"
)

// States of relay.Events.
const (
	stateStarting = "starting" // before the first
	stateSweeping = "sweeping"
	StateTailing  = "tailing" // it reads the log
	stateStandby  = "standby"
	stateStopped  = "stopped"
	stateDraining = "stuck" // it holds the lock still, and settles what was read
	// stateConnecting: it holds the lock, and does not read yet, because the slot is another reader's for one.
	stateConnecting = "connecting"
)

func reading(state string) bool {
	return state == stateSweeping || state == StateTailing
}

// remembered returns get, but asks it once for each key. To find a metric by its labels costs more than to change it.
func remembered[K comparable, V any](get func(K) V) func(K) V {
	known := map[K]V{}
	return func(k K) V {
		v, ok := known[k]
		if !ok {
			v = get(k)
			known[k] = v
		}
		return v
	}
}

// Events returns what feeds the metrics while a relay runs. The functions must not run at the same time. A relay calls them from one goroutine.
func (m *Metrics) Events() relay.Events {
	type answer struct{ sink, class string }
	type delivery struct{ sink, route string }
	type calls struct{ took, batch prometheus.Observer }
	delivered := remembered(func(of delivery) prometheus.Counter { return m.messages.delivered.WithLabelValues(of.sink, of.route) })
	answered := remembered(func(of answer) prometheus.Counter {
		result := "failed"
		if of.class == "" {
			result = "delivered"
		}
		return m.sinks.attempts.WithLabelValues(of.sink, result, of.class)
	})
	called := remembered(func(sink string) calls {
		return calls{m.sinks.deliver.WithLabelValues(sink), m.sinks.batch.WithLabelValues(sink)}
	})
	return relay.Events{
		State:    m.onState,
		Received: m.onReceived,
		Delivered: func(name, route string, n int, latency time.Duration) {
			delivered(delivery{name, route}).Add(float64(n))
			m.messages.endToEnd.Observe(max(latency, 0).Seconds())
		},
		Answered: func(name, class string, n int) { answered(answer{name, class}).Add(float64(n)) },
		Called: func(name string, n int, d time.Duration) {
			c := called(name)
			c.took.Observe(d.Seconds())
			c.batch.Observe(float64(n))
		},
		Parked: func(name string, _ checkpoint.State, n int) {
			m.messages.parked.WithLabelValues(sinkLabel(name)).Add(float64(n))
		},
		Dead: func(name, route, class string, n int) {
			m.messages.dead.WithLabelValues(sinkLabel(name), route, class).Add(float64(n))
			m.countDead(name, class, n)
		},
		Replayed: func(n int) { m.messages.replayed.Add(float64(n)) },
		Skipped:  func(why string, n int) { m.messages.skipped.WithLabelValues(why).Add(float64(n)) },
		Settled: func(_ int, d time.Duration, saved bool) {
			m.checkpoint.settle.Observe(d.Seconds())
			if saved {
				m.checkpoint.saves.Inc()
			}
		},
		SinkState: func(name, state, _ string) { m.setSinkState(name, state) },
		Gap:       func(string) { m.source.gaps.Inc() },
		Cleaned:   func(n int) { m.messages.removed.Add(float64(n)) },
		Found:     func(n int) { m.source.found.Add(float64(n)) },
		Sampled:   m.onSampled,
	}
}

// Ignored counts entries of the log that were left out.
func (m *Metrics) Ignored(why string, n int) { m.source.ignored.WithLabelValues(why).Add(float64(n)) }

// Results of a statement of feedback.
const (
	FeedbackDone      = "done"
	FeedbackUnchanged = "unchanged"
	FeedbackFailed    = "failed"
)

// Feedback counts statements that told business rows an outcome, by their result.
func (m *Metrics) Feedback(table, outcome, result string, n int) {
	m.messages.feedback.WithLabelValues(table, outcome, result).Add(float64(n))
}

func (m *Metrics) onState(state, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, is := reading(m.state), reading(state)
	switch {
	case was && !is:
		m.lost = true
	case is && !was && m.reloading:
		m.reloading = false
	case is && !was:
		if m.lost {
			m.source.reconnects.Inc()
		}
		m.begun++
	}
	m.state, m.why = state, why
	if !reading(state) && state != stateDraining { // what was in memory is forgotten, and read again from the log
		for name, a := range m.ages {
			m.ages[name] = ages{parked: a.parked}
			m.sinks.oldestUndelivered.WithLabelValues(sinkLabel(name)).Set(a.parked.Seconds())
		}
	}
	if state == stateStandby {
		m.forget()
	}
	m.source.connected.Set(number(is))
	m.process.leader.Set(number(is || state == stateDraining || state == stateConnecting))
}

// forget ends what this process says as the one that relays: another one says it now, and alerts take the greatest value of both. The lock is held.
func (m *Metrics) forget() {
	m.source.lagSeconds.Set(0)
	m.checkpoint.age.Set(0)
	m.process.memory.Set(0)
	for _, name := range m.sinkNames {
		if name == "" {
			continue
		}
		for _, state := range laneStates() {
			m.sinks.lanes.WithLabelValues(name, state).Set(0)
		}
		m.setSinkState(name, "open")
	}
}

func (m *Metrics) onReceived(n int, lagBytes int64, lag time.Duration) {
	m.messages.received.Add(float64(n))
	m.source.lagBytes.Set(float64(lagBytes))
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case n > 0:
		m.setLag(max(lag, 0))
	case lagBytes < nearEnd: // what is before it has no messages
		m.setLag(0)
	}
	m.lastLag = time.Now()
}

// setLag takes over how far reading is behind. The lock is held.
func (m *Metrics) setLag(lag time.Duration) {
	m.lag = lag
	m.source.lagSeconds.Set(lag.Seconds())
}

// countDead counts what died.
func (m *Metrics) countDead(name, class string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead[name] == nil {
		m.dead[name] = map[string]int{}
	}
	m.dead[name][class] += n
}

const (
	// staleLag is how old the last batch may be for its lag to be told: after it, what the database says of it counts.
	staleLag = 5 * time.Second
	// nearEnd bytes of log may lie before its end where all messages are read: it grows by itself, and is confirmed now and then.
	nearEnd = 32 << 20
)

func (m *Metrics) onSampled(s relay.Sample) {
	m.process.memory.Set(float64(s.Memory))
	m.process.memoryLimit.Set(float64(s.MemoryLimit))
	m.checkpoint.age.Set(s.CheckpointAge.Seconds())
	for name, x := range s.Sinks {
		m.sinks.lanes.WithLabelValues(name, "open").Set(float64(x.Open))
		m.sinks.lanes.WithLabelValues(name, "parked").Set(float64(x.Parked))
		m.sinks.lanes.WithLabelValues(name, "held").Set(float64(x.Held))
		m.setSinkState(name, x.State)
		m.undelivered(name, func(a *ages) { a.memory = x.OldestUndelivered })
	}
}

// ages of the oldest message that a sink has not taken: in memory, as the relay says, and parked, as the database says.
type ages struct{ memory, parked time.Duration }

// undelivered takes over an age, and shows the greater of both.
func (m *Metrics) undelivered(name string, set func(*ages)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.ages[name]
	set(&a)
	m.ages[name] = a
	m.sinks.oldestUndelivered.WithLabelValues(sinkLabel(name)).Set(max(a.memory, a.parked).Seconds())
}

// Status is what only the database knows.
type Status struct {
	// RetainedBytes is the log that the server keeps for the pipeline, LagBytes what of it is not confirmed yet; -1 when
	// unknown.
	RetainedBytes, LagBytes int64
	// RetainedLimit is how much log the server keeps at most before it drops what was not read; 0 if it has no limit. Lost: the log cannot be read on
	// from the checkpoint.
	RetainedLimit int64
	Lost          bool
	// Waiting is why the server sends nothing, though the log is being read; "" if it sends. WaitingFor is for how long, as far as it tells.
	Waiting    string
	WaitingFor time.Duration
	// UncleanStarts counts starts in a row that ended before anything was settled, the present one not included.
	UncleanStarts int
	// Parked counts deliveries by sink and state, "" is the sink of those that cannot be routed. What is left out has none.
	Parked map[string]map[checkpoint.State]int64
	// OldestDue is how long the oldest due delivery of a sink has been due, OldestHeld how long the oldest group of a sink has
	// been waiting for an operator; what is left out has none.
	OldestDue, OldestHeld map[string]time.Duration
	// OldestUndelivered is the age of the oldest message of a sink that is parked and not dead; what is left out has none.
	OldestUndelivered map[string]time.Duration
}

// Observe takes over what the database said.
func (m *Metrics) Observe(s *Status) {
	if s.RetainedBytes >= 0 {
		m.source.retained.Set(float64(s.RetainedBytes))
	}
	m.source.retainedLimit.Set(float64(s.RetainedLimit))
	m.source.lost.Set(number(s.Lost))
	m.mu.Lock()
	if s.LagBytes >= 0 && time.Since(m.lastLag) > staleLag {
		m.source.lagBytes.Set(float64(s.LagBytes))
		if reading(m.state) && s.LagBytes < nearEnd && s.Waiting == "" {
			m.setLag(0)
		}
	}
	m.wait(s)
	if s.UncleanStarts > m.uncleanSeen {
		m.process.unclean.Add(float64(s.UncleanStarts - m.uncleanSeen))
	}
	m.uncleanSeen = s.UncleanStarts
	names := m.sinkNames
	m.mu.Unlock()
	for _, name := range names {
		for _, state := range parkedStates() {
			m.sinks.parked.WithLabelValues(sinkLabel(name), state).Set(float64(s.Parked[name][checkpoint.State(state)]))
		}
		m.undelivered(name, func(a *ages) { a.parked = s.OldestUndelivered[name] })
		m.sinks.oldestDue.WithLabelValues(sinkLabel(name)).Set(s.OldestDue[name].Seconds())
		m.sinks.oldestHeld.WithLabelValues(sinkLabel(name)).Set(s.OldestHeld[name].Seconds())
	}
}

// wait takes over that the server sends nothing: what is committed meanwhile grows old. The lock is held.
func (m *Metrics) wait(s *Status) {
	m.source.waiting.Set(number(s.Waiting != ""))
	if m.serverWaits = s.Waiting; m.serverWaits == "" {
		m.waitingSince = time.Time{}
		if m.state == stateStandby { // which has no other lag
			m.source.lagSeconds.Set(0)
		}
		return
	}
	if m.waitingSince.IsZero() {
		m.waitingSince = time.Now()
	}
	m.setLag(max(s.WaitingFor, time.Since(m.waitingSince)))
}

// Ready reports whether the process does its work, as the one that holds the lock or as a healthy standby, and why not.
func (m *Metrics) Ready() (ok bool, state, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state = m.state
	if state == "" {
		state = stateStarting
	}
	if reading(state) && m.serverWaits != "" {
		return false, state, "the server sends no message until all standbys of synchronized_standby_slots have it: " + m.serverWaits
	}
	return reading(state) || state == stateStandby, state, m.why
}

// A Process is what the relay of this process has said last.
type Process struct {
	// State is that of relay.Events. Reading: it reads the log, and so relays. StandingBy: another process does. Stopped: it has ended.
	State                        string
	Reading, StandingBy, Stopped bool
	// Lag is how far reading is behind. Restarts counts how often it has begun again.
	Lag      time.Duration
	Restarts int
	// Undelivered is the age of the oldest message that a sink has not taken; Dead counts what died, by sink and class of error.
	Undelivered map[string]time.Duration
	Dead        map[string]map[string]int
}

// Process returns what the relay of this process has said last.
func (m *Metrics) Process() Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := Process{State: cmp.Or(m.state, stateStarting), Reading: reading(m.state), StandingBy: m.state == stateStandby, Stopped: m.state == stateStopped, Lag: m.lag, Restarts: max(0, m.begun-1),
		Undelivered: map[string]time.Duration{}, Dead: map[string]map[string]int{}}
	for name, a := range m.ages {
		p.Undelivered[name] = max(a.memory, a.parked)
	}
	for name, classes := range m.dead {
		p.Dead[name] = maps.Clone(classes)
	}
	return p
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
