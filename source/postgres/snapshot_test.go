package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/test/servers"
)

// snapshot establishes a position and judges it.
func (r *rig) snapshot(first, acceptGap bool) (source.Snapshot, bool, error) {
	r.t.Helper()
	snap, err := r.src.Establish(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = snap.Close(context.Background()) })
	sweep, err := snap.Judge(context.Background(), first, acceptGap)
	return snap, sweep, err
}

func (r *rig) pending(snap source.Snapshot) (ms []*outbox.Message, parkedAt [][]string) {
	r.t.Helper()
	err := snap.Pending(context.Background(), 5, func(_ context.Context, b *source.Batch) error {
		if b.Resume != "" || len(b.Messages) == 0 || len(b.Messages) > batchMessages || b.ParkedAt != nil && len(b.ParkedAt) != len(b.Messages) {
			r.t.Errorf("batch of %d messages, %d parked, resume %q", len(b.Messages), len(b.ParkedAt), b.Resume)
		}
		for i, m := range b.Messages {
			if m.Position != (outbox.Position{Log: 5, N: uint32(len(ms))}) || m.Txn != 0 || m.CommitTime.IsZero() {
				r.t.Errorf("position %s, txn %d", m.Position, m.Txn)
			}
			ms = append(ms, m)
			var at []string
			if b.ParkedAt != nil {
				at = b.ParkedAt[i]
			}
			parkedAt = append(parkedAt, at)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ms, parkedAt
}

// TestEveryRowIsInTheSnapshotOrInTheLog has writers at work while positions are established.
func TestEveryRowIsInTheSnapshotOrInTheLog(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"15", "18"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, version), debeziumDDL, shape("debezium", "outbox"))
			var wg sync.WaitGroup
			var stop atomic.Bool
			var written sync.Map
			for w := range 4 {
				wg.Go(func() {
					conn, err := pgx.Connect(context.Background(), r.pg.SocketURL(r.db))
					if err != nil {
						t.Error(err)
						return
					}
					defer func() { _ = conn.Close(context.Background()) }()
					for i := 0; !stop.Load() && i < 1_000_000; i++ {
						id := fmt.Sprintf("00000000-0000-0000-%04d-%012d", w, i)
						if _, err := conn.Exec(context.Background(), "INSERT INTO outbox VALUES ($1, 'a', 'b', 'c', NULL)", id); err != nil {
							t.Error(err)
							return
						}
						written.Store(id, true)
					}
				})
			}
			defer wg.Wait()
			defer stop.Store(true)
			for range 5 {
				snap, sweep, err := r.snapshot(false, false)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				if sweep {
					ms, _ := r.pending(snap)
					for _, m := range ms {
						seen[m.ID] = true
					}
				}
				if err := snap.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				var want []string
				written.Range(func(id, _ any) bool {
					want = append(want, id.(string))
					return true
				})
				missing := map[string]bool{}
				for _, id := range want {
					if !seen[id] {
						missing[id] = true
					}
				}
				x := r.run(source.Start{From: snap.Resume()})
				for tail := 0; len(missing) > 0 || tail < 10; {
					for _, m := range x.next().Messages {
						if seen[m.ID] {
							t.Fatalf("%s was in the snapshot and came from the log", m.ID)
						}
						delete(missing, m.ID)
						tail++
					}
				}
				if err := x.stop(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const rows = "; INSERT INTO a VALUES ('1', 't', 'p')"
	keep := func(t outbox.Table) outbox.Table { t.OnDelivered = outbox.Keep; return t }
	remove := func(t outbox.Table) outbox.Table { t.OnDelivered = outbox.Delete; return t }
	const withStatus = "CREATE TABLE a (id text, type text, payload text, status text)"
	const withDelivered = "CREATE TABLE a (id text, type text, payload text, delivered_at timestamptz)"
	for name, test := range map[string]struct {
		ddl, start       string
		table            outbox.Table
		first, acceptGap bool
		sweep            bool
		cure             string
	}{
		"no rows":                    {ddl: smallDDL, table: shape("tailbox", "a"), first: true},
		"first, unsaid":              {ddl: smallDDL + rows, table: remove(shape("tailbox", "a")), first: true, cure: "source.start"},
		"first, accepted":            {ddl: smallDDL + rows, table: remove(shape("tailbox", "a")), first: true, acceptGap: true},
		"first, pending":             {ddl: smallDDL + rows, table: keep(shape("tailbox", "a")), start: "pending", first: true, sweep: true},
		"first, now":                 {ddl: smallDDL + rows, table: remove(shape("tailbox", "a")), start: "now", first: true},
		"later, delete":              {ddl: smallDDL + rows, table: remove(shape("tailbox", "a")), start: "now", sweep: true},
		"later, keep":                {ddl: smallDDL + rows, table: keep(shape("tailbox", "a")), start: "pending", cure: "accept-gap"},
		"later, keep, accepted":      {ddl: smallDDL + rows, table: keep(shape("tailbox", "a")), acceptGap: true},
		"later, keep, empty":         {ddl: smallDDL, table: keep(shape("tailbox", "a"))},
		"status, pending":            {ddl: withStatus + "; INSERT INTO a VALUES ('1', 't', 'p', 'pending')", table: shape("tailbox", "a"), first: true, sweep: true},
		"status, pending, now":       {ddl: withStatus + "; INSERT INTO a VALUES ('1', 't', 'p', 'pending')", table: shape("tailbox", "a"), start: "now", first: true, sweep: true},
		"status, NULL":               {ddl: withStatus + "; INSERT INTO a VALUES ('1', 't', 'p', NULL)", table: shape("tailbox", "a"), sweep: true},
		"status, delivered and dead": {ddl: withStatus + "; INSERT INTO a VALUES ('1', 't', 'p', 'delivered'), ('2', 't', 'p', 'dead')", table: shape("tailbox", "a"), first: true},
		"delivered_at NULL":          {ddl: withDelivered + "; INSERT INTO a VALUES ('1', 't', 'p', NULL)", table: shape("tailbox", "a"), sweep: true},
		"delivered_at set":           {ddl: withDelivered + "; INSERT INTO a VALUES ('1', 't', 'p', now())", table: shape("tailbox", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, "17"), strings.ReplaceAll(test.ddl, "; ", ";;"), test.table)
			r.cfg.Start = test.start
			r.src = New(r.cfg)
			snap, sweep, err := r.snapshot(test.first, test.acceptGap)
			if sweep != test.sweep {
				t.Errorf("sweep %v, want %v", sweep, test.sweep)
			}
			if test.cure != "" && (!errors.Is(err, source.ErrUnjudged) || !strings.Contains(err.Error(), test.cure)) || test.cure == "" && err != nil {
				t.Errorf("error %v, want one with %q", err, test.cure)
			}
			if ms, _ := r.pending(snap); (len(ms) == 1) != test.sweep {
				t.Errorf("swept %d", len(ms))
			}
		})
	}
}

func TestSweepOrder(t *testing.T) {
	t.Parallel()
	insert := func(r *rig, sql string, other func()) {
		r.exec("BEGIN")
		r.exec(sql)
		other()
		r.exec("COMMIT")
	}
	test := func(pg *servers.PG, want string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			r := newRig(t, pg, "CREATE TABLE a (id text PRIMARY KEY, type text, payload text, seq bigserial);;"+
				"CREATE TABLE b (id text, type text, payload text, created_at timestamptz);; CREATE TABLE c (id text, type text, payload text)",
				shape("tailbox", "a"), shape("tailbox", "b"), shape("tailbox", "c"))
			r.cfg.Start = "pending"
			r.src = New(r.cfg)
			second := r.connect()
			// Row 1 takes its number first and commits last.
			insert(r, "INSERT INTO a VALUES ('1', 't', 'p')", func() {
				if _, err := second.Exec(context.Background(), "INSERT INTO a VALUES ('2', 't', 'p'), ('3', 't', 'p')"); err != nil {
					t.Fatal(err)
				}
			})
			r.exec("INSERT INTO b VALUES ('6', 't', 'p', '2026-01-02'), ('5', 't', 'p', '2026-01-01')")
			r.exec("INSERT INTO c VALUES ('8', 't', 'p'), ('7', 't', 'p')")
			snap, _, err := r.snapshot(true, false)
			if err != nil {
				t.Fatal(err)
			}
			r.exec("INSERT INTO a VALUES ('9', 't', 'p')") // in the log
			if ms, _ := r.pending(snap); ids(ms) != want {
				t.Errorf("swept %s, want %s", ids(ms), want)
			}
		}
	}
	t.Run("sequence", test(servers.Shared(t, "17"), "1 2 3 5 6 8 7"))
	t.Run("commit", test(servers.Postgres(t, "16", servers.WithSetting("track_commit_timestamp", "on")), "2 3 1 5 6 8 7"))
}

func TestSweepLeavesOutWhatIsParked(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"uuid", "bigint", "char(40)", "text"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id "+id+", type text, payload text, status text DEFAULT 'pending', seq bigserial)", shape("tailbox", "a"))
			row := func(n int) string {
				if id == "bigint" {
					return fmt.Sprint(n)
				}
				return eventID(n)
			}
			for i := range 3000 {
				r.exec("INSERT INTO a (id, type, payload) VALUES ($1::text::"+id+", 't', 'p')", row(i))
			}
			r.exec("CREATE SCHEMA relay")
			r.exec("CREATE TABLE relay.tailbox_parked (pipeline text, sink text, source_table text, message_id text)")
			r.cfg.Schema = "relay"
			r.src = New(r.cfg)
			park := func(pipeline, sink, table string, n int) {
				r.exec("INSERT INTO relay.tailbox_parked VALUES ($1, $2, $3, $4)", pipeline, sink, table, row(n))
			}
			snap, _, err := r.snapshot(false, false)
			if err != nil {
				t.Fatal(err)
			}
			if ms, at := r.pending(snap); len(ms) != 3000 || at[1] != nil {
				t.Errorf("swept %d, parked %v", len(ms), at[1])
			}
			park(r.cfg.Pipeline, "kafka", "public.a", 1)
			park(r.cfg.Pipeline, "mail", "public.a", 1)
			park(r.cfg.Pipeline, "", "public.a", 2)
			park("other", "kafka", "public.a", 3)
			park(r.cfg.Pipeline, "kafka", "public.b", 4)
			if snap, _, err = r.snapshot(false, false); err != nil {
				t.Fatal(err)
			}
			ms, at := r.pending(snap)
			if len(ms) != 3000 || ms[2999].ID != row(2999) {
				t.Fatalf("swept %d", len(ms))
			}
			for n, want := range []string{"", "kafka mail", "", "", "", ""} {
				if got := strings.Join(at[n], " "); got != want && got != "mail kafka" || n == 2 != (len(at[n]) == 1) {
					t.Errorf("row %d is parked at %q, want %q", n, at[n], want)
				}
			}
		})
	}
}

func TestSweepOfLargeRows(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id text PRIMARY KEY, payload bytea, type text, message_group text, headers jsonb)", shape("tailbox", "a"))
	r.cfg.MaxMessage, r.cfg.Start = 1<<20, "pending"
	r.src = New(r.cfg)
	for i, n := range []int{1<<20 - 7, 1<<20 - 5, 50 << 20} {
		r.exec(`INSERT INTO a VALUES ($1, decode(repeat('5a', $2), 'hex'), 'big', 'gr')`, fmt.Sprint(i), n)
	}
	snap, _, err := r.snapshot(true, false)
	if err != nil {
		t.Fatal(err)
	}
	ms, _ := r.pending(snap)
	for i, m := range ms {
		if tooLarge := m.Fault != nil && m.Fault.Class == outbox.FaultTooLarge; tooLarge != (i > 0) || m.Group != "gr" || m.ID != fmt.Sprint(i) ||
			tooLarge != (m.Payload == nil) {
			t.Errorf("message %d: fault %+v, payload of %d bytes", i, m.Fault, len(m.Payload))
		}
	}
	r.exec("INSERT INTO a VALUES ('x', '', 'big', repeat('g', 2000000))")
	if snap, _, err = r.snapshot(true, false); err != nil {
		t.Fatal(err)
	}
	if err := snap.Pending(context.Background(), 1, func(context.Context, *source.Batch) error { return nil }); !errors.Is(err, source.ErrStop) {
		t.Errorf("Pending returned %v for a group that cannot be read", err)
	}
}

func TestSweepOfPartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on")), `CREATE TABLE a (id int, type text, payload text) PARTITION BY RANGE (id);;
		CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10);; CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20)`, shape("tailbox", "a"))
	r.cfg.Start = "pending"
	r.src = New(r.cfg)
	for _, id := range []string{"12", "1", "11"} {
		r.exec("INSERT INTO a VALUES ($1, 't', 'p')", id)
	}
	snap, _, err := r.snapshot(true, false)
	if err != nil {
		t.Fatal(err)
	}
	if ms, _ := r.pending(snap); ids(ms) != "12 1 11" {
		t.Errorf("swept %s", ids(ms))
	}
}

// A sweep finds rows without an id each time, under the same ids, and leaves out what is parked under these.
func TestSweepOfRowsWithoutID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"uuid", "bigint", "char(40)", "text"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id "+id+", type text, payload text, message_group text, status text DEFAULT 'pending');;"+
				tableNames("").expand(ownTables), shape("tailbox", "a"))
			r.exec("INSERT INTO a VALUES (NULL, 't', 'p', 'g'), (NULL, 't', 'p', 'g')")
			if id == "text" || id == "char(40)" {
				r.exec("INSERT INTO a VALUES ('', 't', 'p', 'g')")
			}
			sweep := func() ([]*outbox.Message, [][]string) {
				snap, _, err := r.snapshot(false, false)
				if err != nil {
					t.Fatal(err)
				}
				return r.pending(snap)
			}
			first, _ := sweep()
			if len(first) < 2 {
				t.Fatalf("swept %d", len(first))
			}
			r.exec("INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic) "+
				"VALUES ($1, '', 'public.a', 'g', '', $2, 'dead', true, false, '', '')", r.cfg.Pipeline, first[1].ID)
			again, at := sweep()
			if ids(first) != ids(again) {
				t.Errorf("swept again: %s, before %s", ids(again), ids(first))
			}
			for i, m := range again {
				if !outbox.IsStandInID(m.ID) || m.Fault == nil || m.Group != "g" || (i == 1) != (len(at[i]) == 1) {
					t.Errorf("row %d: %+v, parked at %q", i, m, at[i])
				}
			}
		})
	}
}
