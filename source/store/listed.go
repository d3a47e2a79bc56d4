package store

import (
	"time"

	"github.com/tailbox/tailbox/checkpoint"
)

// A Listed is a parked delivery as operators see it.
type Listed struct {
	checkpoint.Parked
	// ParkedAt is when it was parked first, ChangedAt when its state changed last.
	ParkedAt, ChangedAt time.Time
	// NextAttemptAt is when it is due; zero where it waits for another delivery, or for an operator.
	NextAttemptAt time.Time
}
