package polling

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestPollManyAsk: several that ask one server for its transactions, and go on asking because one is open, are all told, though each
// question keeps an old list alive for the others.
func TestPollManyAsk(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		// A server of its own: others that poll the shared one would wait for these.
		d := mysqltest.PollDatabase(t, servers.MySQL(t, kind))
		app := d.Session(t)
		const askers, times = 8, 3
		ctx, cancel := context.WithTimeout(context.Background(), mysqltest.Patience)
		defer cancel()
		mysqltest.Do(t, app, "START TRANSACTION", mysqltest.PutRow(1))
		asking, enough := context.WithCancel(ctx)
		defer enough()
		var told atomic.Int32
		var over sync.WaitGroup
		ask := func(table *Table) {
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
			table, err := Open(ctx, &d.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = table.Close(context.Background()) })
			over.Go(func() { ask(table) })
		}
		over.Wait()
		if ctx.Err() != nil {
			t.Errorf("not each of %d was told %d times in %v", askers, times, mysqltest.Patience)
		}
	})
}
