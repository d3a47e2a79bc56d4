// Package stream reads the log of Postgres through a logical replication slot with the plugin pgoutput, and makes messages of its rows.
package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// A Source tails one database's log through a logical replication slot with the plugin pgoutput. See source.Source for
// its methods. A Resume is the end of a transaction as an LSN, X/X.
type Source struct {
	cfg session.Config
	// checkEvery is how often the catalog is compared with the configuration while the log is read.
	checkEvery time.Duration
	patience   upstream.Patience
	// textOnly: a column has turned out to have no binary form that is known, so values are asked for as text.
	textOnly atomic.Bool
	// confirmed is the highest position that Confirm was given in this Run.
	confirmed atomic.Uint64
	seen      upstream.ServerMemory
	idleTold  sync.Once // that source.failover does nothing
	barriers  batches.Barriers

	mu     sync.Mutex
	status *statusWriter // of the present Run, or nil
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg session.Config) *Source {
	cfg.MaxMessage = source.MaxMessage(cfg.MaxMessage)
	cfg.Logger = cfg.Log()
	return &Source{cfg: cfg, checkEvery: checkInterval, patience: upstream.Patience{Warn: 5 * time.Second, Limit: time.Minute}}
}

// Confirm implements source.Source. The server hears of it within 100 ms. It confirms nothing above what this Run was sent, even if r is higher. If
// there is no Run, it does nothing, because there is nobody to tell.
func (s *Source) Confirm(r source.Resume) {
	at, err := pgrepl.ParseLSN(string(r))
	if err != nil {
		return // not a position of this source: the server just keeps its log
	}
	s.mu.Lock()
	w := s.status
	s.mu.Unlock()
	if w == nil {
		return
	}
	at = min(at, w.sent())
	for {
		old := s.confirmed.Load()
		if uint64(at) <= old {
			return
		}
		if s.confirmed.CompareAndSwap(old, uint64(at)) {
			w.wake()
			return
		}
	}
}

// Await implements source.Source. A barrier is an LSN, X/X.
func (s *Source) Await(text string) {
	at, err := pgrepl.ParseLSN(text)
	if err != nil {
		err = errors.New("it is not of the form X/X")
	}
	s.barriers.Add(text, uint64(at), err)
	s.wake()
}

// attach makes Confirm and Await wake the status writer of a Run; nil detaches it and forgets the barriers, for which
// nobody waits after a Run.
func (s *Source) attach(w *statusWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = w
	if w == nil {
		s.barriers.Forget()
	}
}

func (s *Source) wake() {
	s.mu.Lock()
	w := s.status
	s.mu.Unlock()
	if w != nil {
		w.wake()
	}
}

// Examine implements source.Source. A SourceID is an upstream.ID.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return upstream.Examine(ctx, &s.cfg, sourceID, from, &s.seen)
}
