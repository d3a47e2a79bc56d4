package stream_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/test/servers"
)

func TestConfirmAloneMovesTheSlot(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	from := r.Establish()
	pgtest.InsertEvents(r, 1, 2)
	x := r.Run(source.Start{From: from})
	_, first := x.Messages(2)
	if got, want := r.Confirmed().String(), string(from); got != want {
		t.Errorf("confirmed_flush_lsn %s before Confirm, want %s", got, want)
	}
	r.Src.Confirm(first)
	r.Until("confirmation", func() bool { return r.Confirmed().String() == string(first) })
	pgtest.InsertEvents(r, 3, 1)
	_, second := x.Messages(1)
	// Beyond what was sent: the server would believe it.
	r.Src.Confirm("FF/0")
	at, err := pgrepl.ParseLSN(string(second))
	if err != nil {
		t.Fatal(err)
	}
	r.Until("confirmation", func() bool { return r.Confirmed() >= at })
	got := r.Confirmed()
	// Nor is it a word for what is sent later.
	pgtest.InsertEvents(r, 4, 1)
	_, third := x.Messages(1)
	if err := x.Stop(); err != nil {
		t.Fatal(err)
	}
	if end, err := pgrepl.ParseLSN(string(third)); err != nil || got >= end || r.Confirmed() != got {
		t.Errorf("confirmed_flush_lsn %s, then %s, want less than %s and the same (%v)", got, r.Confirmed(), third, err)
	}
}

func TestLastConfirmReachesTheServer(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	resume := r.Establish()
	for i := range 10 {
		x := r.Run(source.Start{From: resume})
		pgtest.InsertEvents(r, 1+i, 1)
		_, resume = x.Messages(1)
		pgtest.InsertEvents(r, 1000+i*50, 50) // more for the server to send while the relay stops
		r.Src.Confirm(resume)
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
		r.Until("slot released", func() bool {
			return r.Text("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", r.Cfg.Slot) == "false"
		})
		if got := r.Confirmed().String(); got != string(resume) {
			t.Fatalf("round %d: confirmed_flush_lsn %s, want %s", i, got, resume)
		}
		x = r.Run(source.Start{From: resume})
		_, resume = x.Messages(50)
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProgressFollowsOtherTraffic(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL+";; CREATE TABLE other (n int)", pgtest.Shape("debezium", "outbox"))
	x := r.Run(source.Start{From: r.Establish()})
	r.Exec("INSERT INTO other SELECT generate_series(1, 20000)")
	target, err := pgrepl.ParseLSN(r.Text("SELECT pg_current_wal_lsn()::text"))
	if err != nil {
		t.Fatal(err)
	}
	for {
		b := x.Next()
		if len(b.Messages) > 0 {
			t.Fatalf("got %s", pgtest.IDs(b.Messages))
		}
		at, err := pgrepl.ParseLSN(string(b.Resume))
		if err != nil {
			t.Fatal(err)
		}
		r.Src.Confirm(b.Resume)
		if at >= target {
			break
		}
	}
	r.Until("confirmation", func() bool { return r.Confirmed() >= target })
}

func TestBarrierThatIsNone(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), pgtest.DebeziumDDL, pgtest.Shape("debezium", "outbox"))
	x := r.Run(source.Start{From: r.Establish()})
	r.Src.Await("nonsense")
	if err := x.Wait(); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Run returned %v", err)
	}
}
