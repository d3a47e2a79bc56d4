package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// defaultMaxMessage applies where the configuration has no max_message.
const defaultMaxMessage = 16 << 20

func maxMessageOr(n int) int {
	if n <= 0 {
		return defaultMaxMessage
	}
	return n
}

// A Source tails one database's log through a logical replication slot with the plugin pgoutput. See source.Source for
// its methods. A Resume is the end of a transaction as an LSN, X/X.
type Source struct {
	cfg Config
	// checkEvery is how often the catalog is compared with the configuration while the log is read.
	checkEvery time.Duration
	patience   slotPatience
	// textOnly: a column has turned out to have no binary form that is known, so values are asked for as text.
	textOnly atomic.Bool
	// confirmed is the highest position that Confirm was given in this Run.
	confirmed atomic.Uint64
	seen      witness
	idleTold  sync.Once // that source.failover does nothing
	// waiting is the number of barriers.
	waiting atomic.Int32

	mu       sync.Mutex
	status   *statusWriter // of the present Run, or nil
	barriers []barrier
}

type barrier struct {
	text string
	at   pgrepl.LSN
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg Config) *Source {
	cfg.MaxMessage = maxMessageOr(cfg.MaxMessage)
	cfg.Logger = cfg.logger()
	return &Source{cfg: cfg, checkEvery: checkInterval, patience: slotPatience{warn: 5 * time.Second, limit: time.Minute}}
}

// Confirm implements source.Source. The server hears of it within 100 ms. Beyond what this Run was sent nothing is
// confirmed, whatever r says; without a Run there is nobody to tell.
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
	// Text that is no LSN is never reached: Run fails and names it, when it finds it.
	at, err := pgrepl.ParseLSN(text)
	if err != nil {
		at = badBarrier
	}
	s.mu.Lock()
	s.barriers = append(s.barriers, barrier{text, at})
	s.waiting.Store(int32(len(s.barriers)))
	s.mu.Unlock()
	s.wake()
}

// badBarrier is no place in a log.
const badBarrier = ^pgrepl.LSN(0)

// passed removes and returns the first barrier that is at or before a position.
func (s *Source) passed(at pgrepl.LSN) (text string, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.barriers {
		if b.at == badBarrier {
			return "", false, fmt.Errorf("await barrier %q: it is not of the form X/X", b.text)
		}
		if b.at <= at {
			s.barriers = append(s.barriers[:i], s.barriers[i+1:]...)
			s.waiting.Store(int32(len(s.barriers)))
			return b.text, true, nil
		}
	}
	return "", false, nil
}

// attach makes Confirm and Await wake the status writer of a Run; nil detaches it and forgets the barriers, for which
// nobody waits after a Run.
func (s *Source) attach(w *statusWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = w
	if w == nil {
		s.barriers = nil
		s.waiting.Store(0)
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

// Examine implements source.Source. A SourceID is a serverID.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	return s.cfg.examine(ctx, sourceID, from, &s.seen)
}
