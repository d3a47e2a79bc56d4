package nats_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func newSink(t testing.TB, cfg nats.Config) *nats.Sink {
	t.Helper()
	s, err := nats.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// stream is one of the server's, read by a connection of the test's own.
type stream struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	name   string

	mu   sync.Mutex
	got  []sinktest.Arrival
	next uint64
}

// newStream makes a stream with a name of its own that takes the subjects below that name.
func newStream(t testing.TB, server *servers.NATSServer, change func(*jetstream.StreamConfig)) *stream {
	t.Helper()
	nc, err := natsgo.Connect(server.URL(), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(20*time.Millisecond), natsgo.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{js: js, name: fmt.Sprintf("s%08x", rand.Uint32()), next: 1}
	cfg := jetstream.StreamConfig{Name: s.name, Subjects: []string{s.name, s.name + ".>"}}
	if change != nil {
		change(&cfg)
	}
	if s.stream, err = js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// arrived reads on to the stream's present end.
func (s *stream) arrived(t testing.TB) []sinktest.Arrival {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	info, err := s.stream.Info(ctx)
	if err != nil {
		t.Fatalf("ask for the stream: %v", err)
	}
	if info.State.LastSeq < s.next {
		return slices.Clone(s.got)
	}
	consumer, err := s.js.OrderedConsumer(ctx, s.name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.next})
	if err != nil {
		t.Fatalf("read the stream: %v", err)
	}
	for s.next <= info.State.LastSeq {
		batch, err := consumer.Fetch(int(info.State.LastSeq-s.next+1), jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			t.Fatalf("read the stream: %v", err)
		}
		for m := range batch.Messages() {
			about, err := m.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			s.next = about.Sequence.Stream + 1
			s.got = append(s.got, arrival(m))
		}
		if err := batch.Error(); err != nil {
			t.Fatalf("read the stream: %v", err)
		}
	}
	return slices.Clone(s.got)
}

func arrival(m jetstream.Msg) sinktest.Arrival {
	h := m.Headers()
	a := sinktest.Arrival{ID: unescape(h.Get("id")), Value: m.Data()}
	if a.Value == nil {
		a.Value = []byte{}
	}
	for name, values := range h {
		for _, v := range values {
			switch {
			case name == "tailbox-key":
				a.Key = []byte(unescape(v))
			case strings.HasPrefix(name, "Nats-"):
			case name == "id" || strings.HasPrefix(name, "tailbox-"):
				a.Headers = append(a.Headers, outbox.Header{Name: name, Value: []byte(unescape(v))})
			default:
				a.Headers = append(a.Headers, outbox.Header{Name: name, Value: []byte(v)})
			}
		}
	}
	sortHeaders(a.Headers)
	return a
}

func unescape(s string) string {
	u, err := url.PathUnescape(s)
	if err != nil {
		return err.Error()
	}
	return u
}

func sortHeaders(hs []outbox.Header) {
	slices.SortStableFunc(hs, func(a, b outbox.Header) int { return cmp.Compare(a.Name, b.Name) })
}

// want is what NATS can carry: headers in no order, no NULL.
func want(_ *sink.Delivery, a sinktest.Arrival) sinktest.Arrival {
	if a.Value == nil {
		a.Value = []byte{}
	}
	sortHeaders(a.Headers)
	return a
}

func TestKit(t *testing.T) {
	t.Parallel()
	sharedServer := servers.SharedNATS(t)
	own := servers.NATS(t, servers.NATSOptions{})
	must := func(f func() error) func(testing.TB) {
		return func(t testing.TB) {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
	}
	place := func(t *testing.T, server *servers.NATSServer) sinktest.Place {
		s := newStream(t, server, nil)
		return sinktest.Place{
			Sink:  newSink(t, nats.Config{Servers: []string{server.URL()}, Stream: s.name, Subjects: []string{s.name}}),
			Topic: s.name, Arrived: s.arrived,
		}
	}
	sinktest.Run(t, sinktest.Harness{
		Want: want,
		New:  func(t *testing.T) sinktest.Place { return place(t, sharedServer) },
		Faulty: func(t *testing.T) sinktest.Place {
			p := place(t, own)
			p.Stop, p.Start = must(own.Kill), must(own.Start)
			p.Hang = func(t testing.TB) func() {
				must(own.Pause)(t)
				return func() { must(own.Resume)(t) }
			}
			return p
		},
	})
}

func delivery(topic, id string) *sink.Delivery {
	return &sink.Delivery{
		Message: &outbox.Message{ID: id, Type: "Counted", Group: id, Table: "public.outbox"},
		Topic:   topic, Key: []byte("k"), Value: []byte(`{"n":1}`), Attempt: 1, Source: "test",
	}
}

// one delivers one message and returns the answer.
func one(t testing.TB, s sink.Sink, d *sink.Delivery) error {
	t.Helper()
	return sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]
}

func wantClass(t testing.TB, err error, want sink.Class, says string) {
	t.Helper()
	if err == nil {
		t.Errorf("delivered, want %v", want)
		return
	}
	if class, _, _ := sink.Classify(err); class != want || !strings.Contains(err.Error(), says) {
		t.Errorf("%v: %v, want %v, with %q", class, err, want, says)
	}
}
