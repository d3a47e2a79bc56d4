package admin

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/internal/trace"
	"github.com/tailbox/tailbox/relay"
)

// Labels says what the values of the metrics' labels can be, so that every series exists from the start, at zero.
type Labels struct {
	// Pipeline is the name of the pipeline: each series has it, so that those of several pipelines can be told apart.
	Pipeline string
	// Sinks are the names of all sinks.
	Sinks []string
	// Routes are the names of routes with the sinks of each.
	Routes []RouteLabels
	// Feedback are the outcomes that business rows are told, by table.
	Feedback []FeedbackLabels
	// Version and Commit go into build_info.
	Version, Commit string
}

// RouteLabels is one route.
type RouteLabels struct {
	Name  string
	Sinks []string
}

// FeedbackLabels is one statement of feedback.
type FeedbackLabels struct{ Table, Outcome string }

// unroutable stands in the label sink for deliveries that no sink could be found for: an empty label would be no label.
const unroutable = "-"

func sinkLabel(name string) string {
	if name == "" {
		return unroutable
	}
	return name
}

// Metrics are everything tailbox reports to Prometheus. They are fed by Events, Ignored and Observe. All methods may be
// called from any goroutine.
type Metrics struct {
	source     sourceMetrics
	checkpoint checkpointMetrics
	messages   messageMetrics
	sinks      sinkMetrics
	process    processMetrics

	// sinkStates are the states of sinks that the relay has reported.
	sinkStates sync.Map
	mu         sync.Mutex
	// sinkNames are the names of all sinks, and "".
	sinkNames []string
	state     string
	why       string
	// lost: the state before was connected, so that the next connection is a reconnect.
	lost bool
	// uncleanSeen is how many unclean starts in a row were counted already.
	uncleanSeen int
	lastLag     time.Time
	// lag is what source_lag_seconds says. begun counts how often reading began, and dead what died, by sink and class.
	lag   time.Duration
	begun int
	// reloading: reading begins again because of a reload, so that this is neither a reconnect nor a restart.
	reloading bool
	dead      map[string]map[string]int
	ages      map[string]ages
	// serverWaits is why the server sends nothing, and waitingSince when that was seen first.
	serverWaits  string
	waitingSince time.Time
}

// NewMetrics registers all metrics, and further collectors that are to have the label pipeline as well. An error means that one of them is registered
// already.
func NewMetrics(reg prometheus.Registerer, labels Labels, others ...prometheus.Collector) (*Metrics, error) {
	b := &builder{reg: prometheus.WrapRegistererWith(prometheus.Labels{"pipeline": labels.Pipeline}, reg)}
	m := &Metrics{source: newSourceMetrics(b), checkpoint: newCheckpointMetrics(b), messages: newMessageMetrics(b), sinks: newSinkMetrics(b), process: newProcessMetrics(b)}
	build := b.gauges("build_info", "Always 1; the labels say what runs.", "version", "commit", "go")
	build.WithLabelValues(labels.Version, labels.Commit, runtime.Version()).Set(1)
	m.ages = map[string]ages{}
	m.dead = map[string]map[string]int{}
	m.Reloaded(labels)
	for _, c := range others {
		register(b, fmt.Sprintf("%T", c), c)
	}
	return m, errors.Join(b.errs...)
}

// A sourceMetrics speaks of the log and of how it is read.
type sourceMetrics struct {
	connected, lagBytes, lagSeconds, retained, retainedLimit, lost, waiting prometheus.Gauge
	reconnects, gaps, found                                                 prometheus.Counter
	ignored                                                                 *prometheus.CounterVec
}

func newSourceMetrics(b *builder) sourceMetrics {
	return sourceMetrics{
		connected:     b.gauge("source_connected", "1 while the source's log is being read."),
		lagBytes:      b.gauge("source_lag_bytes", "How far reading is behind the end of the source's log."),
		lagSeconds:    b.gauge("source_lag_seconds", "Age of the commit that was read last; 0 when all is read."),
		retained:      b.gauge("source_retained_bytes", "Log that the server keeps for this pipeline."),
		retainedLimit: b.gauge("source_retained_limit_bytes", "Log that the server keeps for this pipeline at most, before it drops what was not read; 0 if it has no limit."),
		lost:          b.gauge("source_lost", "1 while the log cannot be read on from the checkpoint, because the replication slot is lost or missing."),
		waiting:       b.gauge("source_waiting", "1 while the server sends nothing, because it waits for a standby that is away."),
		reconnects:    b.counter("source_reconnects_total", "Connections to the log after the first."),
		gaps:          b.counter("source_gaps_total", "Lost log positions, each healed by a sweep or accepted."),
		found:         b.counter("source_found_total", "Pending rows that the source did not bring, found by the comparison with the table."),
		ignored:       b.counters("source_ignored_total", "Entries of the log that are no inserts into an outbox table, and were left out.", "why"),
	}
}

// A checkpointMetrics speaks of what is made durable.
type checkpointMetrics struct {
	age    prometheus.Gauge
	saves  prometheus.Counter
	settle prometheus.Histogram
}

func newCheckpointMetrics(b *builder) checkpointMetrics {
	return checkpointMetrics{
		age:    b.gauge("checkpoint_age_seconds", "Age of the last checkpoint while there is something to save; 0 when all is saved."),
		saves:  b.counter("checkpoint_saves_total", "Checkpoints saved."),
		settle: b.histogram("settle_seconds", "Time of a transaction that makes outcomes durable.", exponential(0.0005, 2, 16)),
	}
}

// A messageMetrics counts messages and their deliveries.
type messageMetrics struct {
	received                prometheus.Counter
	delivered, parked, dead *prometheus.CounterVec
	replayed                prometheus.Counter
	skipped                 *prometheus.CounterVec
	endToEnd                prometheus.Histogram
	removed                 prometheus.Counter
	feedback                *prometheus.CounterVec
}

func newMessageMetrics(b *builder) messageMetrics {
	return messageMetrics{
		received:  b.counter("messages_received_total", "Messages read from the log, or found by a sweep."),
		delivered: b.counters("messages_delivered_total", "Deliveries that their sink acknowledged.", "sink", "route"),
		parked:    b.counters("messages_parked_total", "Deliveries handed to the poller, and those dead at once.", "sink"),
		dead:      b.counters("messages_dead_total", "Deliveries that became dead letters.", "sink", "route", "class"),
		replayed:  b.counter("messages_replayed_total", "Dead deliveries that an operator replayed."),
		skipped: b.counters("messages_skipped_total", "Messages about which a step was left out: settled = not sent again, because the log repeated what is settled; "+
			"gone = delivered or parked, but its row could not be deleted or marked, because the application had removed it; tenant = of another pipeline's tenant.", "why"),
		endToEnd: b.histogram("end_to_end_seconds", "From the commit of a message to its acknowledgement, for the oldest of a route's messages in a call.",
			exponential(0.001, 2, 24)),
		removed:  b.counter("rows_removed_total", "Delivered rows that were removed because their retention was over."),
		feedback: b.counters("feedback_total", "Statements that told business rows an outcome: done, unchanged (no row was changed) or failed.", "table", "outcome", "result"),
	}
}

// A sinkMetrics speaks of each sink: its calls, and what waits for it.
type sinkMetrics struct {
	attempts                                                       *prometheus.CounterVec
	deliver, batch                                                 *prometheus.HistogramVec
	parked, lanes, oldestDue, oldestHeld, oldestUndelivered, state *prometheus.GaugeVec
}

func newSinkMetrics(b *builder) sinkMetrics {
	return sinkMetrics{
		attempts:          b.counters("delivery_attempts_total", "Deliveries answered by their sink.", "sink", "result", "class"),
		deliver:           b.histograms("deliver_seconds", "Time of a call to a sink.", exponential(0.0005, 2, 18), "sink"),
		batch:             b.histograms("batch_size", "Deliveries in a call to a sink.", exponential(1, 2, 14), "sink"),
		parked:            b.gauges("parked", "Deliveries parked in the database.", "sink", "state"),
		lanes:             b.gauges("lanes", "Lanes in memory that are open, parked, or held by an operator.", "sink", "state"),
		oldestDue:         b.gauges("oldest_due_age_seconds", "How long the oldest due delivery has been due; scheduled retries are not due.", "sink"),
		oldestHeld:        b.gauges("oldest_held_age_seconds", "How long the oldest dead letter has been holding up its group.", "sink"),
		oldestUndelivered: b.gauges("oldest_undelivered_age_seconds", "Age of the oldest message that the sink has not taken and that is not dead; 0 if there is none.", "sink"),
		state:             b.gauges("sink_state", "1 for the state that the sink is in.", "sink", "state"),
	}
}

// A processMetrics speaks of this process.
type processMetrics struct {
	memory, memoryLimit, leader prometheus.Gauge
	reloaded, reloadedAt        prometheus.Gauge
	unclean                     prometheus.Counter
	spans                       *prometheus.CounterVec
}

func newProcessMetrics(b *builder) processMetrics {
	return processMetrics{
		memory:      b.gauge("memory_bytes", "Bytes of messages in memory."),
		memoryLimit: b.gauge("memory_limit_bytes", "Bound on memory_bytes."),
		leader:      b.gauge("leader", "1 while this process holds the pipeline's lock."),
		reloaded:    b.gauge("config_reload_success", "1 if the configuration that was read last is in force; 0 if it was refused."),
		reloadedAt:  b.gauge("config_reload_success_timestamp_seconds", "When the configuration in force was read, in seconds since 1970."),
		unclean:     b.counter("unclean_starts_total", "Starts that ended before anything was settled."),
		spans: b.counters("trace_spans_total", "Spans of deliveries: sent = the collector took them, refused = it did not take them, "+
			"dropped = they were lost because too many waited.", "result"),
	}
}

func parkedStates() []string {
	return []string{string(checkpoint.StateRetrying), string(checkpoint.StateWaiting), string(checkpoint.StateDead)}
}

func laneStates() []string { return []string{"open", "parked", "held"} }

// Reloaded takes over the labels of a configuration that is in force from now on: a sink that it does not have has no state any more. The relay must
// not run meanwhile.
func (m *Metrics) Reloaded(labels Labels) {
	m.mu.Lock()
	before := m.sinkNames
	m.sinkNames = slices.Concat(labels.Sinks, []string{""})
	m.reloading = m.begun > 0
	m.mu.Unlock()
	for _, name := range before {
		if name == "" || slices.Contains(labels.Sinks, name) {
			continue
		}
		for _, gauges := range []*prometheus.GaugeVec{m.sinks.parked, m.sinks.lanes, m.sinks.oldestDue, m.sinks.oldestHeld, m.sinks.oldestUndelivered, m.sinks.state} {
			gauges.DeletePartialMatch(prometheus.Labels{"sink": name})
		}
		m.sinkStates.Delete(name)
	}
	m.seed(labels, before)
	m.ReloadTried(nil)
}

// ReloadTried notes whether the configuration that was read last is in force.
func (m *Metrics) ReloadTried(err error) {
	m.process.reloaded.Set(number(err == nil))
	if err == nil {
		m.process.reloadedAt.SetToCurrentTime()
	}
}

// seed makes all series. Sinks that were there before keep their states.
func (m *Metrics) seed(labels Labels, before []string) {
	for _, why := range []string{"update", "delete", "truncate", "origin", "type", "table", "message", "statement", "xa"} {
		m.source.ignored.WithLabelValues(why)
	}
	for _, result := range trace.Results() {
		m.process.spans.WithLabelValues(result)
	}
	for _, why := range []string{"settled", "gone", "tenant"} {
		m.messages.skipped.WithLabelValues(why)
	}
	for _, name := range labels.Sinks {
		m.sinks.attempts.WithLabelValues(name, "delivered", "")
		for _, class := range relay.Classes() {
			m.sinks.attempts.WithLabelValues(name, "failed", class)
		}
		m.sinks.deliver.WithLabelValues(name)
		m.sinks.batch.WithLabelValues(name)
		for _, state := range laneStates() {
			m.sinks.lanes.WithLabelValues(name, state)
		}
		if !slices.Contains(before, name) {
			m.setSinkState(name, "open")
		}
	}
	for _, name := range slices.Concat(labels.Sinks, []string{""}) {
		m.messages.parked.WithLabelValues(sinkLabel(name))
		m.sinks.oldestDue.WithLabelValues(sinkLabel(name))
		m.sinks.oldestHeld.WithLabelValues(sinkLabel(name))
		m.sinks.oldestUndelivered.WithLabelValues(sinkLabel(name))
		for _, state := range parkedStates() {
			m.sinks.parked.WithLabelValues(sinkLabel(name), state)
		}
	}
	for _, class := range []string{"unroutable", "undecodable", "too_large"} {
		m.messages.dead.WithLabelValues(unroutable, "", class)
	}
	for _, f := range labels.Feedback {
		for _, result := range []string{FeedbackDone, FeedbackUnchanged, FeedbackFailed} {
			m.messages.feedback.WithLabelValues(f.Table, f.Outcome, result)
		}
	}
	for _, route := range labels.Routes {
		for _, name := range route.Sinks {
			m.messages.delivered.WithLabelValues(name, route.Name)
			for _, class := range relay.DeadClasses() {
				m.messages.dead.WithLabelValues(name, route.Name, class)
			}
		}
	}
}

// Spans counts spans by what became of them, one of trace.Results.
func (m *Metrics) Spans(result string, n int) {
	m.process.spans.WithLabelValues(result).Add(float64(n))
}

// SinkState returns the state of a sink: open, failing, paused or throttled; "" if this process does not read the log, and so does not know it.
func (m *Metrics) SinkState(name string) string {
	m.mu.Lock()
	relaying := reading(m.state)
	m.mu.Unlock()
	if state, ok := m.sinkStates.Load(name); ok && relaying {
		return state.(string)
	}
	return ""
}

func (m *Metrics) setSinkState(name, state string) {
	m.sinkStates.Store(name, state)
	for _, s := range []string{"open", "failing", "paused", "throttled"} {
		value := 0.0
		if s == state {
			value = 1
		}
		m.sinks.state.WithLabelValues(name, s).Set(value)
	}
}

// builder registers metrics and collects errors.
type builder struct {
	reg  prometheus.Registerer
	errs []error
}

const namespace = "tailbox"

func register[C prometheus.Collector](b *builder, name string, c C) C {
	if err := b.reg.Register(c); err != nil {
		b.errs = append(b.errs, fmt.Errorf("register metric %s: %w", name, err))
	}
	return c
}

func (b *builder) gauge(name, help string) prometheus.Gauge {
	return register(b, namespace+"_"+name, prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}))
}

func (b *builder) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(b, namespace+"_"+name, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels))
}

func (b *builder) counter(name, help string) prometheus.Counter {
	return register(b, namespace+"_"+name, prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}))
}

func (b *builder) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(b, namespace+"_"+name, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels))
}

func (b *builder) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(b, namespace+"_"+name, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}))
}

func (b *builder) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(b, namespace+"_"+name, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels))
}

// exponential makes n bucket bounds, each factor times the one before.
func exponential(first, factor float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = first * math.Pow(factor, float64(i))
	}
	return bounds
}
