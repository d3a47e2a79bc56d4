package stream

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/test/servers"
)

// What a feed holds is bounded in bytes, however large the documents are and however slow the reader; all of it comes in order.
func TestFeedBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.SharedMongo(t), mongotest.Table("debezium"))
	at, err := oplog.ParsePlace(r.Establish())
	r.Must(err)
	const n, size = 14, 5 << 20
	payload := bytes.Repeat([]byte{7}, size)
	for i := range n {
		r.Insert(r.Ctx, 0, fmt.Sprint(i), payload)
	}
	changes, err := watch(r.Ctx, &r.Config, r.Client, position{at: at.At + 1}, false)
	r.Must(err)
	f := newFeed(r.Ctx, changes)
	defer f.close(r.Ctx)
	const most = 12 << 20 // feedBytes, and one event beyond, with what append leaves room for
	for i := 0; i < n; {
		if i < n-3 { // there is more than it may hold
			r.Until("the feed to be full", func() bool { return f.waits.Load() > 0 && f.held.Load() >= feedBytes || len(f.parts) == partsAhead })
			if held := f.held.Load(); held > most {
				t.Fatalf("%d bytes are held before event %d, want %d at most", held, i, most)
			}
		}
		p, err := f.next(r.Ctx)
		r.Must(err)
		r.Must(p.err)
		for _, raw := range p.events {
			if id := raw.Lookup("documentKey", "_id").StringValue(); id != fmt.Sprint(i) {
				t.Fatalf("event %d is that of %s", i, id)
			}
			i++
		}
		if held := f.held.Load(); held > most {
			t.Fatalf("%d bytes are held with event %d, want %d at most", held, i-1, most)
		}
	}
}
