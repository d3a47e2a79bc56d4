package stream_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// TestTooLargeRowsAreNotHeld is not parallel: it looks at the memory of the process.
func TestTooLargeRowsAreNotHeld(t *testing.T) {
	r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id text PRIMARY KEY, type text, payload bytea, headers json)", pgtest.Shape("tailbox", "a"))
	r.Cfg.MaxMessage = 1 << 20
	r.Src = stream.New(r.Cfg)
	from := r.Establish()
	r.Exec("INSERT INTO a VALUES ('1', 't', decode(repeat('5a', 150 << 20), 'hex'), json_build_object('h', repeat('x', 50 << 20)))")
	r.Exec("INSERT INTO a VALUES ('2', 't', 'p')")
	x := r.Run(source.Start{From: from})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var ms []*outbox.Message
	for len(ms) < 2 {
		ms = append(ms, x.Next().Messages...)
	}
	runtime.ReadMemStats(&after)
	if ms[0].ID != "1" || ms[0].Fault == nil || !strings.Contains(ms[0].Fault.Reason, "max_message") || ms[1].Fault != nil {
		t.Errorf("got fault %+v", ms[0].Fault)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes were allocated to read a row of 200 MiB with max_message 1 MiB", n)
	}
}
