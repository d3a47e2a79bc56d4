package stream

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// A Source tails one server's binlog. See source.Source for its methods. A Resume is a file and position, and the GTIDs
// up to it.
type Source struct {
	cfg server.Config
	// serverID and uuid are this reader's own, as a replica has them. ServerID is used by Run, and by Establish before it.
	serverID uint32
	uuid     string
	// remembers is how many ids of XA transactions a search of the log remembers.
	remembers int
	barriers  batches.Barriers

	mu       sync.Mutex
	wire     *binlog.Reader // of the present Run, or nil
	examined string         // the server that Examine saw last
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not connect.
func New(cfg server.Config) *Source {
	cfg.MaxMessage = source.MaxMessage(cfg.MaxMessage)
	cfg.Logger = cfg.Log()
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
	p, err := binlog.ParsePosition(text)
	if err != nil {
		err = errors.New("it is not of the form file:position")
	}
	s.barriers.Add(text, p.Ordinal(), err)
	s.mu.Lock()
	w := s.wire
	s.mu.Unlock()
	if w != nil {
		w.Poke()
	}
}

// attach makes Await wake the reader of a Run; nil detaches it and forgets the barriers, for which nobody waits after a Run.
func (s *Source) attach(w *binlog.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = w
	if w == nil {
		s.barriers.Forget()
	}
}

// Examine implements source.Source.
func (s *Source) Examine(ctx context.Context, sourceID string, from source.Resume) (*source.Examined, error) {
	e, err := Examine(ctx, &s.cfg, sourceID, from)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.examined = e.SourceID
	s.mu.Unlock()
	return e, nil
}
