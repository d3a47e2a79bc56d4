package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
)

// observe asks the database again and again for what only it knows, for the metrics and alerts. know gets nil if that fails: the relay
// itself tells when the database cannot be reached.
func observe(ctx context.Context, log *slog.Logger, db operate.Database, every time.Duration, know func(*report.Status)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := false // of the failures in a row, the first is a warning
	for {
		asking, cancel := context.WithTimeout(ctx, observeEvery)
		r, err := db.Status(asking)
		cancel()
		if err != nil {
			r = nil
			if ctx.Err() == nil && !told {
				log.Warn("the state of the database cannot be read: metrics and alerts about it stand still", "error", err)
				told = true
			}
		} else {
			told = false
		}
		know(r)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func statusOf(r *report.Status) *admin.Status {
	s := &admin.Status{RetainedBytes: r.RetainedBytes, LagBytes: r.LagBytes, RetainedLimit: r.RetainedLimit, Lost: r.Lost != "", Parked: map[string]map[checkpoint.State]int64{},
		OldestDue: map[string]time.Duration{}, OldestHeld: map[string]time.Duration{}, OldestUndelivered: map[string]time.Duration{}}
	s.Waiting, s.WaitingFor = r.Waiting, time.Duration(r.WaitSeconds*float64(time.Second))
	// The start that is running counts until it has settled something.
	if c := r.Checkpoint; c != nil {
		s.UncleanStarts = max(0, c.UncleanStarts-1)
	}
	for _, x := range r.Sinks {
		s.Parked[x.Sink] = map[checkpoint.State]int64{checkpoint.StateRetrying: int64(x.Retrying),
			checkpoint.StateWaiting: int64(x.Waiting), checkpoint.StateDead: int64(x.Dead)}
		s.OldestDue[x.Sink] = time.Duration(x.DueSeconds * float64(time.Second))
		s.OldestUndelivered[x.Sink] = time.Duration(x.UndeliveredSeconds * float64(time.Second))
		s.OldestHeld[x.Sink] = time.Duration(x.HeldSeconds * float64(time.Second))
	}
	return s
}
