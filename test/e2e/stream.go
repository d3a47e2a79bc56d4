package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/test/servers"
)

// A Stream reads a JetStream stream into a ledger, from the server itself: proxies stand between relay and server only. The
// server may go away and come back.
type Stream struct {
	Name   string  // also the one subject that it takes, if it is not told others
	Ledger *Ledger // nil if another keeper notes what comes

	keeper   Keeper
	js       jetstream.JetStream
	replicas int
	tb       testing.TB

	mu   sync.Mutex
	next uint64
}

// NewStream makes a stream and reads it until the test ends.
func NewStream(tb testing.TB, server *servers.NATSServer, ledger *Ledger) *Stream {
	tb.Helper()
	return NewStreamOn(tb, []*servers.NATSServer{server}, ledger)
}

// NewStreamOn makes a stream with a replica on each server of a cluster.
func NewStreamOn(tb testing.TB, cluster []*servers.NATSServer, ledger *Ledger) *Stream {
	tb.Helper()
	s := ReadStream(tb, cluster, ledger)
	s.Ledger = ledger
	return s
}

// ReadStream makes a stream with a replica on each server, and lets a keeper note what comes until the test ends.
func ReadStream(tb testing.TB, cluster []*servers.NATSServer, keeper Keeper) *Stream {
	tb.Helper()
	var urls []string
	for _, server := range cluster {
		urls = append(urls, server.URL())
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	s := &Stream{Name: fmt.Sprintf("e2e-%08x", rand.Uint32()), keeper: keeper, tb: tb, next: 1}
	if s.js, err = jetstream.New(nc); err != nil {
		tb.Fatal(err)
	}
	s.replicas = len(cluster)
	if missing := within(time.Minute, func() string { return s.listen(s.Name) }); missing != "" { // a cluster looks for its leader first
		tb.Fatal(missing)
	}
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for ctx.Err() == nil {
			if err := s.read(ctx); err != nil {
				wait(ctx, 50*time.Millisecond)
			}
		}
	})
	tb.Cleanup(func() {
		stop()
		nc.Close()
		reading.Wait()
	})
	return s
}

// Listen makes the stream take these subjects and no others.
func (s *Stream) Listen(subjects ...string) {
	s.tb.Helper()
	if why := s.listen(subjects...); why != "" {
		s.tb.Fatal(why)
	}
}

// listen is Listen. It returns why that failed.
func (s *Stream) listen(subjects ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := s.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: s.Name, Subjects: subjects, Replicas: s.replicas, AllowDirect: true})
	if err != nil {
		return fmt.Sprintf("let stream %s take %v: %v", s.Name, subjects, err)
	}
	return ""
}

// leader is the name of the server that leads the stream.
func (s *Stream) leader() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.Name)
	if err != nil {
		return "", err
	}
	if c := stream.CachedInfo().Cluster; c != nil && c.Leader != "" {
		return c.Leader, nil
	}
	return "", errors.New("it has none")
}

// read reads on, message by message, until something fails.
func (s *Stream) read(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, s.Name)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		asked, cancel := context.WithTimeout(ctx, time.Second)
		m, err := stream.GetMsg(asked, s.next)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			wait(ctx, 5*time.Millisecond)
		case err != nil:
			return err
		default:
			s.take(m)
		}
	}
	return nil
}

func (s *Stream) take(m *jetstream.RawStreamMsg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := m.Header
	attempt, err := strconv.Atoi(h.Get("tailbox-attempt"))
	if err != nil {
		s.keeper.Broke("changed", "message %d of the stream: header tailbox-attempt: %v", m.Sequence, err)
	} else {
		s.keeper.Deliver(false, Delivery{ID: h.Get("id"), Replaces: h.Get("tailbox-replaces"), Group: h.Get("tailbox-group"),
			Position: h.Get("tailbox-position"), Attempt: attempt, Payload: m.Data})
	}
	s.next = m.Sequence + 1
}

// CatchUp waits until everything that is in the stream now is in the ledger.
func (s *Stream) CatchUp() {
	s.tb.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		missing, err := s.missing()
		if missing == 0 && err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.tb.Fatalf("read stream %s: %d messages are missing: %v", s.Name, missing, err)
		}
		wait(context.Background(), 20*time.Millisecond)
	}
}

// missing counts messages that are in the stream and not in the ledger.
func (s *Stream) missing() (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stream, err := s.js.Stream(ctx, s.Name)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return stream.CachedInfo().State.LastSeq + 1 - s.next, nil
}
