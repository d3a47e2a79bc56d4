package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/test/servers"
)

func insertEvents(r *rig, first, n int) {
	r.t.Helper()
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid,
		'order', (i % 7)::text, 'OrderPlaced', jsonb_build_object('i', i) FROM generate_series($1::int, $2::int) i`, first, first+n-1)
}

func eventID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

func TestConfirmAloneMovesTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	from := r.establish()
	insertEvents(r, 1, 2)
	x := r.run(source.Start{From: from})
	_, first := x.messages(2)
	if got, want := r.confirmed().String(), string(from); got != want {
		t.Errorf("confirmed_flush_lsn %s before Confirm, want %s", got, want)
	}
	r.src.Confirm(first)
	r.until("confirmation", func() bool { return r.confirmed().String() == string(first) })
	insertEvents(r, 3, 1)
	_, second := x.messages(1)
	// Beyond what was sent: the server would believe it.
	r.src.Confirm("FF/0")
	at, err := pgrepl.ParseLSN(string(second))
	if err != nil {
		t.Fatal(err)
	}
	r.until("confirmation", func() bool { return r.confirmed() >= at })
	got := r.confirmed()
	// Nor is it a word for what is sent later.
	insertEvents(r, 4, 1)
	_, third := x.messages(1)
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	if end, err := pgrepl.ParseLSN(string(third)); err != nil || got >= end || r.confirmed() != got {
		t.Errorf("confirmed_flush_lsn %s, then %s, want less than %s and the same (%v)", got, r.confirmed(), third, err)
	}
}

func TestLastConfirmReachesTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	resume := r.establish()
	for i := range 10 {
		x := r.run(source.Start{From: resume})
		insertEvents(r, 1+i, 1)
		_, resume = x.messages(1)
		insertEvents(r, 1000+i*50, 50) // more for the server to send while the relay stops
		r.src.Confirm(resume)
		if err := x.stop(); err != nil {
			t.Fatal(err)
		}
		r.until("slot released", func() bool {
			return r.text("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot) == "false"
		})
		if got := r.confirmed().String(); got != string(resume) {
			t.Fatalf("round %d: confirmed_flush_lsn %s, want %s", i, got, resume)
		}
		x = r.run(source.Start{From: resume})
		_, resume = x.messages(50)
		if err := x.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProgressFollowsOtherTraffic(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL+";; CREATE TABLE other (n int)", shape("debezium", "outbox"))
	x := r.run(source.Start{From: r.establish()})
	r.exec("INSERT INTO other SELECT generate_series(1, 20000)")
	target, err := pgrepl.ParseLSN(r.text("SELECT pg_current_wal_lsn()::text"))
	if err != nil {
		t.Fatal(err)
	}
	for {
		b := x.next()
		if len(b.Messages) > 0 {
			t.Fatalf("got %s", ids(b.Messages))
		}
		at, err := pgrepl.ParseLSN(string(b.Resume))
		if err != nil {
			t.Fatal(err)
		}
		r.src.Confirm(b.Resume)
		if at >= target {
			break
		}
	}
	r.until("confirmation", func() bool { return r.confirmed() >= target })
}

func TestBarrierThatIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	x := r.run(source.Start{From: r.establish()})
	r.src.Await("nonsense")
	if err := x.wait(); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Run returned %v", err)
	}
}
