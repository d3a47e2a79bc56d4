//go:build e2e

package e2e

import (
	"testing"
	"time"
)

// TestFailoverSynchronous replaces the primary by its synchronous standby again and again, planned and not: nothing is lost, overtaken or invented.
func TestFailoverSynchronous(t *testing.T) {
	f := newFailovers(t, true)
	for i := range trials(t, 20) {
		f.ready(true)
		Pause(500 * time.Millisecond)
		f.failover([]happen{killed, planned, killedRelay, killedLate}[i%4])
	}
	f.judge()
}

// TestFailoverAsynchronous does it with a standby that lags: what Postgres loses the relay has never delivered, and what is there comes.
func TestFailoverAsynchronous(t *testing.T) {
	f := newFailovers(t, true)
	for i := range trials(t, 8) {
		f.ready(false)
		Pause(500 * time.Millisecond)
		f.failover([]happen{laggingBy1s, laggingRelay}[i%2])
	}
	f.judge()
}
