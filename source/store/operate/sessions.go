package operate

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// keptFor is how long after it was opened a session may answer questions. A longer one would not see that the tables have a new version, or that the
	// client lost a right.
	keptFor = 10 * time.Second
	// leaveTime bounds how long the end of a session may take that nobody waits for.
	leaveTime = 5 * time.Second
)

// KeepSessions returns an operator that asks several questions in one session, one after another: to open one costs a database more than most
// questions do. It is for a server of many clients.
func (o Operator) KeepSessions() Operator {
	o.sessions = &sessions{}
	return o
}

// sessions are those that wait for a question. It is safe for concurrent use. nil keeps none.
type sessions struct {
	mu   sync.Mutex
	idle []*kept
}

// kept is a session that may be used again.
type kept struct {
	Reader
	until time.Time
}

// opened makes a new session one that can be kept.
func (s *sessions) opened(r Reader) Reader {
	if s == nil {
		return r
	}
	k := &kept{Reader: r, until: time.Now().Add(keptFor)}
	time.AfterFunc(keptFor, func() { s.end(k) })
	return k
}

// take returns the session that was used last; nil if none waits.
func (s *sessions) take() Reader {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	k := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	return k
}

// keep takes a session back, and reports whether it did: one that is too old has to be left.
func (s *sessions) keep(r Reader) bool {
	k, ok := r.(*kept)
	if !ok || !time.Now().Before(k.until) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, k)
	return true
}

// end leaves a session that is too old, unless it is in use: then keep refuses it.
func (s *sessions) end(k *kept) {
	s.mu.Lock()
	i := slices.Index(s.idle, k)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		_ = k.Leave(ctx)
	}
}
