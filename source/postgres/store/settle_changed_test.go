package store_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestSettleBesideUpdate: an application changes a row while a settlement waits for it. The row is still there, and gets what it has to show.
func TestSettleBesideUpdate(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "17", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewStoreRig(t, servers.Shared(t, version), nil, pgtest.Shape("tailbox", "outbox"))
			r.Row(1)
			m := pgtest.Msg(1, "g")
			r.ParkWhole(sourcetest.Head("kafka", m, 0))
			other := r.Connect()
			pgtest.Exec(t, other, "BEGIN")
			pgtest.Exec(t, other, "UPDATE outbox SET payload = payload")
			done := make(chan error, 1)
			go func() {
				_, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
				done <- err
			}()
			r.Until("a settlement that waits", func() bool {
				return r.Text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == "1"
			})
			pgtest.Exec(t, other, "COMMIT")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			r.Until("the row to be settled", func() bool {
				r.Due("kafka") // it finishes what is unfinished first
				return strings.HasPrefix(r.Rows(), "1 delivered")
			})
		})
	}
}

// TestSettleBesideRelease: a settlement passes a locked row over, and the lock is released before the settlement ends. The row is not gone.
func TestSettleBesideRelease(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Exec(`CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END'`)
	r.Exec(`CREATE TRIGGER stay BEFORE UPDATE ON outbox FOR EACH ROW WHEN (new.id::text LIKE '%2') EXECUTE FUNCTION stay()`)
	r.Row(1)
	r.Row(2)
	r.St.SkipLocked = true
	other := r.Connect()
	pgtest.Exec(t, other, "BEGIN; SELECT FROM outbox WHERE id::text LIKE '%1' FOR UPDATE; SELECT pg_advisory_xact_lock(7)")
	type answer struct {
		out *checkpoint.Settled
		err error
	}
	done := make(chan answer, 1)
	go func() {
		rows := []checkpoint.Row{sourcetest.RowOf(pgtest.Msg(1, "g"), false), sourcetest.RowOf(pgtest.Msg(2, "g"), false)}
		out, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Rows: rows})
		done <- answer{out, err}
	}()
	r.Until("a settlement that waits for the trigger", func() bool {
		return r.Text("SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == "1"
	})
	pgtest.Exec(t, other, "COMMIT")
	got := <-done
	if got.err != nil || got.out.Gone != 0 || len(got.out.Invisible) != 0 {
		t.Fatalf("%+v, %v: want both rows settled", got.out, got.err)
	}
	pgtest.Equal(t, "rows", r.Text("SELECT count(*)::text FROM outbox WHERE status = 'delivered'"), "2")
}

// TestSettleKeptByTrigger: a trigger that keeps a row as it is holds nothing up: the outcome is settled without it.
func TestSettleKeptByTrigger(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Row(1)
	m := pgtest.Msg(1, "g")
	r.ParkWhole(sourcetest.Head("kafka", m, 0))
	r.Exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	r.Exec(`CREATE TRIGGER keep BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION keep()`)
	r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
	pgtest.Equal(t, "parked", r.Text("SELECT count(*)::text FROM tailbox_parked"), "0")
	if r.St.SkipLocked {
		t.Error("settlements go on passing over locked rows")
	}
}
