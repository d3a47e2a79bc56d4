package kafka_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/sinktest"
)

// counting is a broker that has the topics that begin with good, and counts what it is asked for.
type counting struct {
	address string
	host    string
	port    int32

	mu    sync.Mutex
	conns []net.Conn
	asked []string      // topics of each request for metadata
	held  chan struct{} // metadata are answered when it is closed; nil: at once
	begun chan struct{} // gets one for each request for metadata
	slow  map[string]int

	version  int16                     // the last one of produce requests
	answers  produce.ResponsePartition // to each of them
	throttle int32                     // in milliseconds, likewise
	produced int                       // how many there were
	other    *counting                 // leads the topics that begin with good-other
	of       *counting                 // the one whose other this is, which knows the cluster
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &counting{address: l.Addr().String(), begun: make(chan struct{}, 10_000), slow: map[string]int{}, version: 3}
	host, port, _ := net.SplitHostPort(b.address)
	n, _ := strconv.Atoi(port)
	b.host, b.port = host, int32(n)
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); b.hangUp(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns = append(b.conns, c)
			b.mu.Unlock()
			wg.Go(func() { b.serve(c) })
		}
	})
	return b
}

// hangUp ends all connections.
func (b *counting) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		_ = c.Close()
	}
}

func (b *counting) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		version, correlation, _, m, err := protocol.ReadRequest(in)
		if err != nil {
			return
		}
		if err := protocol.WriteResponse(c, version, correlation, b.answer(m)); err != nil {
			return
		}
	}
}

func (b *counting) answer(m protocol.Message) protocol.Message {
	switch m := m.(type) {
	case *apiversions.Request:
		r := &apiversions.Response{}
		for key, last := range map[protocol.ApiKey]int16{protocol.Metadata: 4, protocol.Produce: b.version} {
			r.ApiKeys = append(r.ApiKeys, apiversions.ApiKeyResponse{ApiKey: int16(key), MaxVersion: last})
		}
		return r
	case *metadata.Request:
		if b.of != nil {
			return b.of.answer(m)
		}
		b.mu.Lock()
		b.asked = append(b.asked, strings.Join(m.TopicNames, " "))
		held := b.held
		b.mu.Unlock()
		b.begun <- struct{}{}
		if held != nil {
			<-held
		}
		r := &metadata.Response{Brokers: []metadata.ResponseBroker{{NodeID: 1, Host: b.host, Port: b.port}}}
		if b.other != nil {
			r.Brokers = append(r.Brokers, metadata.ResponseBroker{NodeID: 2, Host: b.other.host, Port: b.other.port})
		}
		for _, name := range m.TopicNames {
			r.Topics = append(r.Topics, b.topic(name))
		}
		return r
	case *produce.Request:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.produced++
		r := &produce.Response{ThrottleTimeMs: b.throttle}
		for _, t := range m.Topics {
			r.Topics = append(r.Topics, produce.ResponseTopic{Topic: t.Topic, Partitions: slices.Repeat([]produce.ResponsePartition{b.answers}, len(t.Partitions))})
		}
		return r
	}
	return nil
}

func (b *counting) topic(name string) metadata.ResponseTopic {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slow[name]--; !strings.HasPrefix(name, "good") || b.slow[name] >= 0 {
		return metadata.ResponseTopic{Name: name, ErrorCode: int16(kafkago.UnknownTopicOrPartition)}
	}
	leader := int32(1)
	if b.other != nil && strings.HasPrefix(name, "good-other") {
		leader = 2
	}
	return metadata.ResponseTopic{Name: name, Partitions: []metadata.ResponsePartition{{LeaderID: leader}}}
}

// requests is how often metadata were asked for.
func (b *counting) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// TestUnknownTopicsHoldUpNothing: while 60 topics that do not exist are asked for, by as many calls at once, two of the calls wait; the others
// come back, and a topic that is known gets its messages. All are asked for in a few requests, with them a new topic that exists.
func TestUnknownTopicsHoldUpNothing(t *testing.T) {
	t.Parallel()
	b := newCounting(t)
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	send(t, s, deliveries("good-known", "g", 0, 1))
	before := b.requests()
	held := make(chan struct{})
	b.mu.Lock()
	b.held = held
	b.mu.Unlock()

	const junk = 60
	answers := make(chan error, junk+1)
	one := func(topic string) error { return sinktest.Call(t.Context(), t, s, deliveries(topic, "g", 0, 1))[0] }
	for i := range junk {
		go func() { answers <- one(fmt.Sprint("junk-", i)) }()
	}
	go func() { answers <- one("good-new") }()
	// Those that do not wait answer while the broker says nothing.
	for range junk + 1 - 2 {
		wantClass(t, <-answers, sink.ClassNotAttempted, "")
	}
	if err := one("good-known"); err != nil {
		t.Errorf("a known topic: %v", err)
	}
	close(held)
	for range 2 {
		if err := <-answers; err != nil {
			wantClass(t, err, sink.ClassNotAttempted, "")
		}
	}
	// Whoever comes next asks for all that were left.
	if err := one("junk-0"); err == nil {
		t.Error("a topic that does not exist took a message")
	}
	send(t, s, deliveries("good-new", "g", 1, 1))
	if n := b.requests() - before; n > 6 {
		t.Errorf("%d requests for metadata about %d topics", n, junk+1)
	}
}

// TestMissingTopicIsAskedForOnce: that a topic may be made by the broker is waited for only in the beginning. From then on a message
// costs one request, and its answer is there at once.
func TestMissingTopicIsAskedForOnce(t *testing.T) {
	t.Parallel()
	b := newCounting(t)
	s := newSink(t, kafka.Config{Brokers: []string{b.address}})
	wantClass(t, settled(t, s, deliveries("junk", "g", 0, 1))[0], sink.ClassMisconfigured, "does not exist")
	for range 5 {
		before := b.requests()
		wantClass(t, sinktest.Call(t.Context(), t, s, deliveries("junk", "g", 0, 1))[0], sink.ClassMisconfigured, "does not exist")
		if n := b.requests() - before; n != 1 {
			t.Errorf("a probe asks %d times", n)
		}
	}
	// A broker that makes a topic when it is asked for it says at first that there is none.
	b.mu.Lock()
	b.slow["good-made"] = 3
	b.mu.Unlock()
	if answer := settled(t, s, deliveries("good-made", "g", 0, 1))[0]; answer != nil {
		t.Errorf("a topic that the broker makes: %v", answer)
	}
}
