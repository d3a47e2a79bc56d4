package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
)

// updateEvery bounds how often updates of outbox rows are logged.
const updateEvery = time.Minute

// logUpdates wraps the counter of what the log held and was left out: updates of outbox rows are logged too, if
// table.op.invalid.behavior asks for it. If the relay updates rows itself, its own updates would be among them, so they are
// only counted.
func logUpdates(ctx context.Context, s *config.Source, log *slog.Logger, count func(why string, n int)) func(why string, n int) {
	level := s.OnUpdate
	if level == nil {
		return count
	}
	for i := range s.Tables {
		if updates(&s.Tables[i]) {
			return count
		}
	}
	var mu sync.Mutex
	var last time.Time
	var since int
	return func(why string, n int) {
		count(why, n)
		if why != "update" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		since += n
		if now := time.Now(); now.Sub(last) >= updateEvery {
			log.Log(ctx, *level, "rows of outbox tables were updated, which sends nothing", "updates", since)
			last, since = now, 0
		}
	}
}

// updates reports whether the relay updates rows of the table: it marks them, shows their state until it deletes them, or writes receipts.
func updates(t *outbox.Table) bool {
	return t.OnDelivered == outbox.Mark || t.OnDelivered == outbox.Delete && t.ShowsParked() || t.Columns.Receipt != ""
}
