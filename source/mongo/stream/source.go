package stream

import (
	"errors"
	"sync"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/oplog"
)

// A Source tails the outbox collections through one change stream. See source.Source for its methods. A Resume is a cluster
// time, seconds:ordinal, and never stands inside a transaction. The server keeps its oplog by its own rules, so Confirm tells
// it nothing.
type Source struct {
	cfg      conn.Config
	err      error // of the configuration; every method returns it
	barriers batches.Barriers

	mu        sync.Mutex
	confirmed chan struct{} // closed when awaited was confirmed; nil if nobody waits
	awaited   source.Resume
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg conn.Config) *Source {
	resolved, err := cfg.Resolved()
	return &Source{cfg: resolved, err: err}
}

// Confirm implements source.Source.
func (s *Source) Confirm(r source.Resume) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confirmed != nil && r == s.awaited {
		close(s.confirmed)
		s.confirmed = nil
	}
}

// await returns a channel that is closed when a position was confirmed.
func (s *Source) await(r source.Resume) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed, s.awaited = make(chan struct{}), r
	return s.confirmed
}

// Await implements source.Source. A barrier is a cluster time.
func (s *Source) Await(text string) {
	at, err := oplog.ParseTime(text)
	if err != nil {
		err = errors.New("it is not of the form seconds:ordinal")
	}
	s.barriers.Add(text, uint64(at), err)
}

// forget drops the barriers, for which nobody waits after a Run.
func (s *Source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmed = nil
	s.barriers.Forget()
}
