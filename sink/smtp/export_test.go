package smtp

import "time"

// SetLongestEnd changes how long the server may take to answer a whole mail.
func (s *Sink) SetLongestEnd(longest time.Duration) { s.longestEnd = longest }

// EndingsWaiting counts the mails whose answer no call waits for, and that is missing.
func (s *Sink) EndingsWaiting() int {
	s.endings.mu.Lock()
	defer s.endings.mu.Unlock()
	return s.endings.waiting()
}

// SetTook changes how long the server took with its last answer.
func (s *Sink) SetTook(took time.Duration) {
	s.endings.mu.Lock()
	defer s.endings.mu.Unlock()
	s.endings.took = took
}
