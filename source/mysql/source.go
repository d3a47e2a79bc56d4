package mysql

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A Source tails one server's binlog. See source.Source for its methods. A Resume is a file and position, and the GTIDs
// up to it.
type Source struct {
	cfg Config
	// serverID and uuid are this reader's own, as a replica has them. ServerID is used by Run, and by Establish before it.
	serverID uint32
	uuid     string
	// remembers is how many ids of XA transactions a search of the log remembers.
	remembers int
	// waiting is the number of barriers.
	waiting atomic.Int32

	mu       sync.Mutex
	wire     *binlog.Reader // of the present Run, or nil
	examined string         // the server that Examine saw last
	barriers []barrier
}

type barrier struct {
	text string
	at   uint64
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg Config) *Source {
	cfg.MaxMessage = maxMessageOr(cfg.MaxMessage)
	cfg.Logger = cfg.logger()
	s := &Source{cfg: cfg, serverID: cfg.ServerID, uuid: randomUUID(), remembers: maxRemembered}
	if s.serverID == 0 {
		s.serverID = randomServerID()
	}
	return s
}

func randomUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return string(binlog.AppendUUIDText(nil, u[:]))
}

// Confirm implements source.Source. A server keeps its binlog for as long as it is told to (binlog_expire_logs_seconds),
// whoever has read it: there is nothing to confirm.
func (s *Source) Confirm(source.Resume) {}

// Await implements source.Source. A barrier is a place in the binlog, file:position.
func (s *Source) Await(text string) {
	// Text that is no place is never reached: Run fails and names it, when it finds it.
	at := uint64(badBarrier)
	if p, err := binlog.ParsePosition(text); err == nil {
		at = p.Ordinal()
	}
	s.mu.Lock()
	s.barriers = append(s.barriers, barrier{text, at})
	s.waiting.Store(int32(len(s.barriers)))
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Poke()
	}
}

// badBarrier is no place in a log.
const badBarrier = ^uint64(0)

// passed removes and returns the first barrier that is at or before a place.
func (s *Source) passed(at uint64) (text string, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.barriers {
		if b.at == badBarrier {
			return "", false, fmt.Errorf("await barrier %q: it is not of the form file:position", b.text)
		}
		if b.at <= at {
			s.barriers = append(s.barriers[:i], s.barriers[i+1:]...)
			s.waiting.Store(int32(len(s.barriers)))
			return b.text, true, nil
		}
	}
	return "", false, nil
}

// attach makes Await wake the reader of a Run; nil detaches it and forgets the barriers, for which nobody waits after a Run.
func (s *Source) attach(w *binlog.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
	if w == nil {
		s.barriers = nil
		s.waiting.Store(0)
	}
}

// Examine implements source.Source.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	e, err := s.cfg.examine(ctx, sourceID, from)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.examined = e.SourceID
	s.mu.Unlock()
	return e, nil
}
