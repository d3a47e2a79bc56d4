package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

func insertEvents(r *rig, first, n int) {
	r.t.Helper()
	r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) SELECT ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid,
		'order', (i % 7)::text, 'OrderPlaced', jsonb_build_object('i', i) FROM generate_series($1::int, $2::int) i`, first, first+n-1)
}

func eventID(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }

func TestRunEmitsInsertsInCommitOrder(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "16", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, version), debeziumDDL, shape("debezium", "outbox"))
			from := r.establish()
			insertEvents(r, 1, 3)
			insertEvents(r, 4, 1)
			r.exec("UPDATE outbox SET type = 'x'")
			r.exec("DELETE FROM outbox")
			x := r.run(source.Start{From: from, Log: 3})
			ms, resume := x.messages(4)
			for i, m := range ms {
				if m.ID != eventID(i+1) || m.Type != "OrderPlaced" || m.Topic != "order" || m.Table != "public.outbox" ||
					m.Group != fmt.Sprintf("order:%d", (i+1)%7) || string(m.Key) != fmt.Sprint((i+1)%7) ||
					string(m.Payload) != fmt.Sprintf(`{"i": %d}`, i+1) || m.Fault != nil {
					t.Errorf("message %d: %+v", i, m)
				}
				if d := time.Since(m.CommitTime); d < 0 || d > patience || m.Txn == 0 || m.Position.Log != 3 {
					t.Errorf("message %d: commit %v ago, txn %d, position %s", i, d, m.Txn, m.Position)
				}
			}
			if ms[0].Position.Commit != ms[2].Position.Commit || ms[2].Position.N != 2 || ms[3].Position.N != 0 {
				t.Errorf("positions %s %s %s %s", ms[0].Position, ms[1].Position, ms[2].Position, ms[3].Position)
			}
			if err := x.stop(); err != nil {
				t.Errorf("Run returned %v after its context ended", err)
			}
			// Reading again from the end brings nothing old.
			insertEvents(r, 100, 1)
			ms, _ = r.run(source.Start{From: resume}).messages(1)
			if ms[0].ID != eventID(100) {
				t.Errorf("after resume got %s", ids(ms))
			}
		})
	}
}

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
	at, err := parseLSN(string(second))
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
	if end, err := parseLSN(string(third)); err != nil || got >= end || r.confirmed() != got {
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

func TestLargeTransactionArrivesInBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	from := r.establish()
	const n = 100_000
	insertEvents(r, 1, n)
	insertEvents(r, n+1, 1)
	x := r.run(source.Start{From: from})
	var got, batches int
	for got < n+1 {
		b := x.next()
		checkBatch(t, b)
		batches++
		for _, m := range b.Messages {
			got++
			if m.ID != eventID(got) {
				t.Fatalf("message %d is %s", got, m.ID)
			}
		}
		if got < n && (b.Resume != "" || len(b.Marks) > 0) {
			t.Fatalf("resume %q, marks %v after %d messages of a transaction of %d", b.Resume, b.Marks, got, n)
		}
		if len(b.Messages) > batchMessages {
			t.Fatalf("batch of %d messages", len(b.Messages))
		}
	}
	if batches < n/batchMessages {
		t.Errorf("%d batches", batches)
	}
}

func TestMarksAndResumesAreRestartable(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	from := r.establish()
	total := 0
	for i := range 60 {
		n := 1 + i%4
		insertEvents(r, total+1, n)
		total += n
	}
	x := r.run(source.Start{From: from})
	type end struct {
		at    source.Resume
		after int
	}
	var ends []end
	got := 0
	for got < total {
		b := x.next()
		checkBatch(t, b)
		for _, m := range b.Marks {
			ends = append(ends, end{m.Resume, got + m.N})
		}
		got += len(b.Messages)
		if b.Resume != "" {
			ends = append(ends, end{b.Resume, got})
		}
	}
	if err := x.stop(); err != nil {
		t.Fatal(err)
	}
	for _, e := range ends {
		if e.after == total {
			continue
		}
		x := r.run(source.Start{From: e.at})
		if b := x.next(); len(b.Messages) == 0 || b.Messages[0].ID != eventID(e.after+1) {
			t.Errorf("from %s got %s, want %s first", e.at, ids(b.Messages), eventID(e.after+1))
		}
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
	target, err := parseLSN(r.text("SELECT pg_current_wal_lsn()::text"))
	if err != nil {
		t.Fatal(err)
	}
	for {
		b := x.next()
		if len(b.Messages) > 0 {
			t.Fatalf("got %s", ids(b.Messages))
		}
		at, err := parseLSN(string(b.Resume))
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

func TestKeepalivesWhileEmitBlocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes longer than wal_sender_timeout")
	}
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	x := r.run(source.Start{From: r.establish()})
	insertEvents(r, 1, 20_000) // more than the socket's buffers hold
	pid := ""
	r.until("walsender", func() bool {
		pid = r.text("SELECT coalesce(max(active_pid), 0)::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot)
		return pid != "0"
	})
	// Nobody takes batches, for longer than wal_sender_timeout: the relay reports every 3 s.
	last, replies := "", 0
	r.until("replies", func() bool {
		if now := r.text("SELECT reply_time::text FROM pg_stat_replication WHERE pid = $1::int", pid); now != last {
			last = now
			replies++
		}
		return replies > 5
	})
	ms, _ := x.messages(20_000)
	if ms[len(ms)-1].ID != eventID(20_000) {
		t.Errorf("last message %s", ms[len(ms)-1].ID)
	}
	insertEvents(r, 20_001, 1)
	x.messages(1)
	if got := r.text("SELECT coalesce(max(active_pid), 0)::text FROM pg_replication_slots WHERE slot_name = $1", r.cfg.Slot); got != pid {
		t.Errorf("walsender %s, was %s", got, pid)
	}
}

func TestStopAtAnyMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	from := r.establish()
	insertEvents(r, 1, 5000)
	for i := range 40 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*3*time.Millisecond)
		x := make(chan struct{})
		if err := r.src.Run(ctx, source.Start{From: from}, func(ctx context.Context, b *source.Batch) error {
			if i%3 == 0 {
				return nil
			}
			select {
			case x <- struct{}{}:
			case <-ctx.Done():
			}
			return ctx.Err()
		}); err != nil {
			t.Errorf("stopped after %d ms: Run returned %v", i*3, err)
		}
		cancel()
	}
	errOwn := errors.New("the relay's own")
	if err := r.src.Run(context.Background(), source.Start{From: from}, func(context.Context, *source.Batch) error { return errOwn }); err != errOwn {
		t.Errorf("Run returned %v, want what emit returned", err)
	}
}

func TestBarrierComesAfterWhatWasCommitted(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	x := r.run(source.Start{From: r.establish()})
	for round := range 5 {
		if round%2 == 0 {
			insertEvents(r, 1+round*100, 100)
		}
		barrier := r.text("SELECT pg_logical_emit_message(true, 'tailbox', '')::text")
		r.src.Await(barrier)
		got := 0
		for {
			b := x.next()
			checkBatch(t, b)
			got += len(b.Messages)
			if b.Barrier == barrier {
				break
			}
		}
		if want := (1 - round%2) * 100; got != want {
			t.Errorf("round %d: %d messages before the barrier, want %d", round, got, want)
		}
	}
	r.src.Await("nonsense")
	if err := x.wait(); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Run returned %v", err)
	}
}

func TestCautiousStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	from := r.establish()
	insertEvents(r, 1, 3)
	insertEvents(r, 4, 1)
	asked := make(chan outbox.Position, 10)
	x := r.run(source.Start{From: from, Cautious: func(_ context.Context, p outbox.Position) error {
		asked <- p
		return nil
	}})
	var resumes []source.Resume
	for got := 0; got < 4; {
		b := x.next()
		if len(b.Messages) > 1 {
			t.Fatalf("batch of %d messages", len(b.Messages))
		}
		for _, m := range b.Messages {
			if p := <-asked; p != m.Position {
				t.Errorf("asked for %s, got %s", p, m.Position)
			}
			got++
		}
		if b.Resume != "" {
			resumes = append(resumes, b.Resume)
		}
	}
	if len(resumes) == 0 {
		t.Error("no resume")
	}
}
