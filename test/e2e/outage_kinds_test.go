//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// An outageKind is a way in which a destination fails for every message.
type outageKind struct {
	name string
	open func(t *testing.T) *failing
	// throttled: the destination asks for patience, so that the sink does not fail.
	throttled bool
	// loneDead is how many messages of a group that is alone may die.
	loneDead int
	// patient: with one group alone, five calls in a row have to fail, which takes up to 15 s and a little.
	patient bool
}

// failing is a destination that can fail as a whole.
type failing struct {
	sink   string // what stands behind its name in the configuration
	topic  string // that messages go to, where the sink has topics
	ledger *Ledger
	// begin the outage, and restore the destination.
	begin, restore func()
	// catchUp returns once the ledger has what the destination has.
	catchUp func()
	fault
}

// fault notes whom an outage concerned.
type fault struct {
	mu    sync.Mutex
	on    bool
	after time.Duration // from a request to its answer
	first time.Time     // answer that was a failure
	tries int           // the highest attempt among the requests that failed
}

func (f *fault) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// strikes reports whether a request fails.
func (f *fault) strikes(ds ...Delivery) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on {
		return false
	}
	if f.first.IsZero() {
		f.first = time.Now().Add(f.after)
	}
	for _, d := range ds {
		f.tries = max(f.tries, d.Attempt)
	}
	return true
}

// seen returns when the first request was answered by a failure, the zero time if none has, and the highest attempt among them.
func (f *fault) seen() (first time.Time, tries int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first, f.tries
}

const outageTimeout = 2 * time.Second

func outageKinds() []outageKind {
	none := Answer{Drop: true}
	status := func(code int, after string) Answer { return Answer{Status: code, RetryAfter: after, Drop: true} }
	hang, reset := none, none
	hang.Hang, reset.Reset = true, true
	return []outageKind{
		{name: "500", open: httpOutage("single", status(500, "")), loneDead: 1, patient: true},
		{name: "500 to arrays", open: httpOutage("array", status(500, "")), loneDead: 1, patient: true},
		{name: "502", open: httpOutage("single", status(502, ""))},
		{name: "503", open: httpOutage("single", status(503, ""))},
		{name: "503 to arrays", open: httpOutage("array", status(503, ""))},
		{name: "503 with Retry-After", open: httpOutage("single", status(503, "1")), throttled: true},
		{name: "504", open: httpOutage("cloudevents-batch", status(504, ""))},
		{name: "timeouts", open: httpOutage("single", hang)},
		{name: "timeouts of arrays", open: httpOutage("array", hang)},
		{name: "cut connections", open: httpOutage("single", reset)},
		{name: "Kafka with too few replicas", open: kafkaOutage},
		{name: "SMTP 421", open: mailOutage},
		{name: "NATS without a leader", open: leaderOutage},
		{name: "NATS without responders", open: respondersOutage, patient: true},
	}
}

// httpOutage is an endpoint that gives one answer to all.
func httpOutage(format string, a Answer) func(t *testing.T) *failing {
	return func(t *testing.T) *failing {
		t.Helper()
		f := &failing{ledger: NewLedger(format), catchUp: func() {}}
		if a.Hang {
			f.after = outageTimeout
		}
		endpoint := NewEndpoint(t, f.ledger)
		endpoint.Answer(func(q Request) Answer {
			if f.strikes(q.Deliveries...) {
				return a
			}
			return Answer{}
		})
		f.sink = fmt.Sprintf("{kind: http, url: %q, format: %s, timeout: %v}", endpoint.URL(false), format, outageTimeout)
		f.begin, f.restore = func() { f.set(true) }, func() { f.set(false) }
		return f
	}
}

// kafkaOutage is a topic with two replicas, one of which is gone, and that wants both in sync.
func kafkaOutage(t *testing.T) *failing {
	t.Helper()
	f := &failing{ledger: NewLedger("kafka")}
	broker := servers.Kafka(t)
	follower := broker.Follower(t)
	topic := NewTopicWith(t, broker, 4, f.ledger, map[string]string{"min.insync.replicas": "2"})
	f.sink, f.topic, f.catchUp = fmt.Sprintf("{kind: kafka, brokers: [%q], timeout: 2s}", broker.Brokers()[0]), topic.Name, topic.CatchUp
	f.begin = func() {
		f.ledger.Loose(true) // what was asked last is appended, and not told
		f.set(true)
		f.strikes()
		if err := follower.Kill(); err != nil {
			t.Error(err)
		}
	}
	f.restore = func() {
		if err := follower.Start(); err != nil {
			t.Error(err)
		}
	}
	return f
}

// mailOutage is a mail server that closes each session with 421, at whatever step that is.
func mailOutage(t *testing.T) *failing {
	t.Helper()
	f := &failing{ledger: NewLedger("mail"), catchUp: func() {}}
	server, box := servers.StartMail(t, servers.MailOptions{}), &mailbox{ledger: f.ledger}
	server.On(func(e servers.MailEvent) error {
		if f.strikes() {
			return servers.MailAnswer(421, "closing")
		}
		return box.step(e)
	})
	f.sink = fmt.Sprintf(`{kind: smtp, address: %q, from: shop@example.org, to: bob@example.org, subject: "message:id", text: "payload:", timeout: 2s}`,
		server.Addr())
	f.begin, f.restore = func() { f.set(true) }, func() { f.set(false) }
	return f
}

// leaderOutage is a stream with three replicas, two of which are gone, its leader among them.
func leaderOutage(t *testing.T) *failing {
	t.Helper()
	f := &failing{ledger: NewLedger("nats")}
	cluster := servers.NATSCluster(t, 3)
	stream := NewStreamOn(t, cluster, f.ledger)
	var urls []string
	for _, s := range cluster {
		urls = append(urls, fmt.Sprintf("%q", s.URL()))
	}
	f.sink = fmt.Sprintf("{kind: nats, servers: [%s], stream: %s, timeout: 2s}", strings.Join(urls, ", "), stream.Name)
	f.topic, f.catchUp = stream.Name, stream.CatchUp
	var dead []*servers.NATSServer
	f.begin = func() {
		name, err := stream.leader()
		leader := 0
		if err == nil {
			_, err = fmt.Sscanf(name, "n%d", &leader)
		}
		if err != nil {
			t.Errorf("find the leader of the stream: %v", err)
		}
		dead = []*servers.NATSServer{cluster[leader], cluster[(leader+1)%3]}
		f.ledger.Loose(true) // what the leader was asked last, it may have stored and not told
		f.set(true)
		f.strikes()
		for _, s := range dead {
			if err := s.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	f.restore = func() {
		for _, s := range dead {
			if err := s.Start(); err != nil {
				t.Error(err)
			}
		}
		if missing := within(time.Minute, func() string { // until then it does not work
			if _, err := stream.leader(); err != nil {
				return fmt.Sprintf("find the leader of the stream: %v", err)
			}
			return ""
		}); missing != "" {
			t.Error(missing)
		}
	}
	return f
}

// respondersOutage is a subject that no stream takes.
func respondersOutage(t *testing.T) *failing {
	t.Helper()
	f := &failing{ledger: NewLedger("nats")}
	server := servers.NATS(t, servers.NATSOptions{})
	stream := NewStream(t, server, f.ledger)
	f.sink = fmt.Sprintf("{kind: nats, servers: [%q], timeout: 2s}", server.URL())
	f.topic, f.catchUp = stream.Name, stream.CatchUp
	listen := func(subject string) {
		if why := stream.listen(subject); why != "" {
			t.Error(why)
		}
	}
	f.begin = func() { listen(stream.Name + ".other"); f.set(true); f.strikes() }
	f.restore = func() { listen(stream.Name) }
	return f
}
