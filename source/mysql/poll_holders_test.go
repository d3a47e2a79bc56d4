package mysql

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// TestPollManyAsk: several that ask one server for its transactions, and go on asking because one is open, are all told, though each
// question keeps an old list alive for the others.
func TestPollManyAsk(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		// A server of its own: others that poll the shared one would wait for these.
		d := pollDatabase(t, servers.MySQL(t, kind))
		app := d.session(t)
		const askers, times = 8, 3
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		do(t, app, "START TRANSACTION", putRow(1))
		asking, enough := context.WithCancel(ctx)
		defer enough()
		var told atomic.Int32
		var over sync.WaitGroup
		ask := func(table *pollTable) {
			for n := 0; asking.Err() == nil; {
				_, known, wait, err := table.Holders(asking)
				if known {
					n++
				}
				if known && n == times && told.Add(1) == askers {
					enough()
				}
				if err != nil && asking.Err() == nil {
					t.Error(err)
					enough()
				}
				select {
				case <-time.After(wait):
				case <-asking.Done():
				}
			}
		}
		for range askers {
			conn, table, err := openPoll(ctx, &d.cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.close(context.Background()) })
			over.Go(func() { ask(table) })
		}
		over.Wait()
		if ctx.Err() != nil {
			t.Errorf("not each of %d was told %d times in %v", askers, times, patience)
		}
	})
}
