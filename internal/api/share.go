package api

import (
	"sync"
	"time"
)

const (
	// While several clients ask at once, the questions of all of them together may take one part of shareOf of a connection's time, and burst beyond it
	// after a time without questions: those who page without a pause do not take the processors from the relay and its database. One client alone
	// waits for each answer before it asks again, so that its questions do not count.
	shareOf = 10
	burst   = time.Second
	// longestWait bounds how long a question waits for what others have taken: there has to be time left for its answer.
	longestWait = 2 * time.Second
)

// A share bounds how much time the questions of several clients take. It is safe for concurrent use.
type share struct {
	mu sync.Mutex
	// owed is the time that has been taken beyond what was due at a moment.
	owed time.Duration
	at   time.Time
}

// wait returns how long a question has to wait.
func (s *share) wait(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	return max(0, s.owed-burst) * shareOf
}

// took notes the time of a question.
func (s *share) took(d time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	s.owed = min(s.owed+d, burst+longestWait/shareOf)
}

func (s *share) settle(now time.Time) {
	if since := now.Sub(s.at); since > 0 {
		s.owed, s.at = max(0, s.owed-since/shareOf), now
	}
}
