package relay

import (
	"testing"
	"time"
	"unsafe"
)

// stepped is t with the wall clock so many seconds further, and the monotonic one where it was: what a virtual machine that
// was suspended reads. Package time has no way to make one.
func stepped(t time.Time, seconds int) time.Time {
	const second = 30 // the bit above the nanoseconds, in the first word of a time.Time with a monotonic reading
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall = uint64(int64(*wall) + int64(seconds)<<second)
	return t
}

// R12: no delivery starts more than 5 s after the session's last answer, though a suspended machine's monotonic clock stood still.
func TestTrustAfterSuspension(t *testing.T) {
	t.Parallel()
	answered := time.Now()
	for _, c := range []struct {
		monotonic time.Duration
		wall      int // seconds by which the wall clock was stepped
		want      bool
	}{
		{time.Second, 0, true},
		{sessionTrust, 0, false},
		{time.Second, 600, false},
		{0, 5, false},
		{time.Second, -600, true},
		{sessionTrust, -600, false},
	} {
		now := stepped(answered.Add(c.monotonic), c.wall)
		if got := now.Sub(answered); got != c.monotonic {
			t.Fatalf("package time reads %v, want %v", got, c.monotonic)
		}
		ss := &session{answered: answered}
		if got := ss.trusted(now); got != c.want {
			t.Errorf("%v later, wall clock stepped by %d s: trusted %t, want %t", c.monotonic, c.wall, got, c.want)
		}
	}
}
