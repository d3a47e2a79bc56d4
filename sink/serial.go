package sink

import "context"

// A Serial runs calls that the operating system may hold up for as long as it likes (a write to a full pipe, an fsync),
// one at a time, and lets the caller go when its context ends. The zero value is not ready: use NewSerial.
type Serial struct {
	// busy holds one token while a call runs, also when its caller is gone.
	busy chan struct{}
}

// NewSerial makes a Serial.
func NewSerial() *Serial { return &Serial{busy: make(chan struct{}, 1)} }

// Do runs f after all earlier calls have ended. It returns started = false when ctx ended before f could start, and
// ended = false when ctx ended while f was running: f goes on then, and must not use what belongs to the caller.
func (s *Serial) Do(ctx context.Context, f func()) (started, ended bool) {
	if ctx.Err() != nil {
		return false, false
	}
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return false, false
	}
	done := make(chan struct{})
	go func() {
		defer func() { <-s.busy; close(done) }()
		f()
	}()
	select {
	case <-done:
		return true, true
	case <-ctx.Done():
	}
	// Both may be true by now: then the outcome is known, and knowing beats guessing.
	select {
	case <-done:
		return true, true
	default:
		return true, false
	}
}
