package postgres

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

func TestStoreLock(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	if _, err := OpenStore(r.ctx, r.cfg); !errors.Is(err, checkpoint.ErrLocked) {
		t.Fatalf("second store: %v, want ErrLocked", err)
	}
	other := r.cfg
	other.Pipeline = "another"
	st, err := OpenStore(r.ctx, other)
	if err != nil {
		t.Fatalf("store of another pipeline: %v", err)
	}
	if err := st.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.exec("SELECT pg_terminate_backend($1)", r.st.conn.PgConn().PID())
	if err := r.st.Ping(r.ctx); err == nil || errors.Is(err, source.ErrStop) {
		t.Errorf("ping of a lost session: %v, want an error that is none of the operator's", err)
	}
	if _, err := r.st.Settle(r.ctx, &checkpoint.Settlement{Rows: []checkpoint.Row{{Table: "public.outbox", ID: eventID(1)}}}); err == nil {
		t.Error("settle on a lost session succeeded")
	}
	var next *store
	r.until("the lock is free", func() bool {
		next, err = openStore(r.ctx, r.cfg)
		return err == nil
	})
	if err := next.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStoreWithoutTables(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), debeziumDDL, shape("debezium", "outbox"))
	_, err := OpenStore(context.Background(), r.cfg)
	if !errors.Is(err, checkpoint.ErrNoTables) || !errors.Is(err, source.ErrStop) {
		t.Errorf("open without tables: %v, want ErrNoTables and ErrStop", err)
	}
	r.exec(tableNames("").expand(ownTables))
	r.cfg.Tables[0].Name = "nowhere"
	if _, err := OpenStore(context.Background(), r.cfg); !errors.Is(err, source.ErrStop) {
		t.Errorf("open without outbox table: %v, want ErrStop", err)
	}
}

// A database default of synchronous_commit=off must not reach the store: it would confirm what is not durable.
func TestStoreSession(t *testing.T) {
	t.Parallel()
	for _, version := range servers.Versions(t) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newStoreRig(t, servers.Shared(t, version), nil, shape("debezium", "outbox"))
			r.exec("ALTER DATABASE " + r.db + " SET synchronous_commit = off")
			r.exec("ALTER DATABASE " + r.db + " SET default_transaction_isolation = 'serializable'")
			r.reopen()
			for name, want := range map[string]string{"synchronous_commit": "on", "idle_session_timeout": "10s",
				"idle_in_transaction_session_timeout": "10s", "statement_timeout": "0", "transaction_isolation": "read committed",
				"row_security": "off", "application_name": appName(r.cfg.Pipeline)} {
				var got string
				if err := r.st.conn.QueryRow(r.ctx, "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want {
					t.Errorf("%s = %q, %v, want %q", name, got, err, want)
				}
			}
		})
	}
}

func TestCheckpointRoundTrip(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	p := func(commit uint64, n uint32) outbox.Position { return outbox.Position{Log: 3, Commit: commit, N: n} }
	want := &checkpoint.Checkpoint{SourceID: "7/1", Resume: "0/16B3748", Log: math.MaxUint32, LastCommit: math.MaxUint64,
		SettledAbove: map[string][]checkpoint.Range{"kafka": {{First: p(5, 0), Last: p(5, 9)}, {First: p(7, 1), Last: p(8, 0)}},
			"": {{First: p(6, 0), Last: p(6, 0)}}, `q"uote`: {{First: p(9, 9), Last: p(9, 9)}}}, SweepPending: true}
	if err := r.st.Save(r.ctx, want); err != nil {
		t.Fatal(err)
	}
	loaded := r.reopen()
	equal(t, "loaded", loaded.Checkpoint, want)
	want.SettledAbove, want.SweepPending, want.Resume = nil, false, "0/2"
	calls := 0
	out := r.settle(checkpoint.Settlement{Checkpoint: func(invisible []int) *checkpoint.Checkpoint {
		calls++
		return want
	}})
	if !out.Saved || calls != 1 {
		t.Errorf("saved %v after %d calls", out.Saved, calls)
	}
	equal(t, "loaded", r.reopen().Checkpoint, want)
	if got := r.text("SELECT lease_epoch::text FROM tailbox_checkpoint"); got != "3" {
		t.Errorf("lease_epoch %s, want 3", got)
	}
}

func TestUncleanStarts(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	crash := func() *checkpoint.Loaded {
		if err := closeConn(r.ctx, r.st.conn); err != nil {
			t.Fatal(err)
		}
		r.until("the lock is free", func() bool {
			return r.text("SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == "0"
		})
		return r.open()
	}
	equal(t, "after one crash", crash().UncleanStarts, 1)
	equal(t, "after two", crash().UncleanStarts, 2)
	equal(t, "after a clean end that settled nothing", r.reopen().UncleanStarts, 2)
	at := outbox.Position{Log: 1, Commit: 77, N: 3}
	if err := r.st.Starting(r.ctx, at); err != nil {
		t.Fatal(err)
	}
	loaded := crash()
	equal(t, "after three", loaded.UncleanStarts, 3)
	equal(t, "started", loaded.Started, at)
	if err := r.st.Starting(r.ctx, at); err != nil {
		t.Fatal(err)
	}
	loaded = r.reopen()
	equal(t, "after a clean end in the middle of a cautious start", loaded.UncleanStarts, 3)
	equal(t, "started", loaded.Started, outbox.Position{})
	r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{head("kafka", msg(1, "g"), 0)}})
	if err := r.st.Starting(r.ctx, at); err != nil {
		t.Fatal(err)
	}
	equal(t, "after a clean end behind what was settled", r.reopen().UncleanStarts, 0)
	r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{head("kafka", msg(2, "g"), 0)}})
	loaded = crash()
	equal(t, "after something was settled", loaded.UncleanStarts, 0)
	equal(t, "started", loaded.Started, outbox.Position{})
}

func TestLoadNamesLanesAndSinks(t *testing.T) {
	t.Parallel()
	r := newStoreRig(t, servers.Shared(t, "17"), nil, shape("debezium", "outbox"))
	r.park(head("b", msg(1, "g1"), 0), follower("b", msg(2, "g1")), follower("b", msg(3, "g1")), dead("b", msg(4, "g2"), true),
		dead("c", msg(5, "g3"), false), dead("", msg(6, "g9"), true), head("a", msg(7, ""), 0), head("b", msg(8, "ä"), 0))
	loaded := r.reopen()
	equal(t, "blocked", lanesText(loaded.Blocked), "/g9 b/g1 b/g2 b/ä")
	equal(t, "sinks", loaded.ParkedSinks, []string{"", "a", "b", "c"})
	if loaded.SourceID == "" {
		t.Error("no source id")
	}
	rep, err := r.cfg.connectReplication(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = closePgConn(r.ctx, rep) }()
	server, err := identify(r.ctx, rep)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "source id", loaded.SourceID, server.sourceID())
}
