package stream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestJudgeWithoutAWord: rows are pending where the status is NULL, or there is nothing but the time of their delivery.
func TestJudgeWithoutAWord(t *testing.T) {
	t.Parallel()
	const withStatus = "CREATE TABLE a (id text, type text, payload text, status text);;"
	const withDelivered = "CREATE TABLE a (id text, type text, payload text, delivered_at timestamptz);;"
	for name, test := range map[string]struct {
		ddl   string
		sweep bool
	}{
		"status, NULL":      {withStatus + "INSERT INTO a VALUES ('1', 't', 'p', NULL)", true},
		"delivered_at NULL": {withDelivered + "INSERT INTO a VALUES ('1', 't', 'p', NULL)", true},
		"delivered_at set":  {withDelivered + "INSERT INTO a VALUES ('1', 't', 'p', now())", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, "17"), test.ddl, pgtest.Shape("tailbox", "a"))
			snap, sweep, err := r.Snapshot(false, false)
			if err != nil || sweep != test.sweep {
				t.Errorf("sweep %v, %v, want %v", sweep, err, test.sweep)
			}
			if ms, _ := r.Pending(snap); (len(ms) == 1) != test.sweep {
				t.Errorf("swept %d", len(ms))
			}
		})
	}
}

// A program that tries to deliver a row changes it, so that the row's commit time is that of the change. Such rows come first: they were written before.
func TestSweepOrderOfTried(t *testing.T) {
	t.Parallel()
	pg := servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on"))
	for _, change := range []string{"attempts = 1", "failures = 1", "last_attempt_at = now()"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			table := pgtest.Shape("tailbox", "a")
			table.Columns.Failures = "failures"
			r := pgtest.NewRig(t, pg, "CREATE TABLE a (id text PRIMARY KEY, type text, payload text, seq bigserial, status text DEFAULT 'pending', attempts int NOT NULL DEFAULT 0, failures int, "+
				"last_attempt_at timestamptz)", table)
			for i := range 4 {
				r.Exec("INSERT INTO a (id, type, payload) VALUES ($1, 't', 'p')", fmt.Sprint(i))
			}
			r.Exec("UPDATE a SET " + change + " WHERE id = '1'")
			r.Exec("UPDATE a SET " + change + " WHERE id = '0'")
			pgtest.Equal(t, "swept", swept(r), "0 1 2 3")
		})
	}
}

// sweepRig is a rig that sweeps tables of which no column tells what is pending.
func sweepRig(t *testing.T, pg *servers.PG, ddl string, tables ...outbox.Table) *pgtest.Rig {
	r := pgtest.NewRig(t, pg, ddl, tables...)
	r.Cfg.Start = "pending"
	r.Src = stream.New(r.Cfg)
	return r
}

// swept takes a snapshot, and returns the ids of what is pending in it, in order.
func swept(r *pgtest.Rig) string {
	r.T.Helper()
	snap, _, err := r.Snapshot(true, false)
	if err != nil {
		r.T.Fatal(err)
	}
	ms, _ := r.Pending(snap)
	return pgtest.IDs(ms)
}

func TestSweepOrder(t *testing.T) {
	t.Parallel()
	insert := func(r *pgtest.Rig, sql string, other func()) {
		r.Exec("BEGIN")
		r.Exec(sql)
		other()
		r.Exec("COMMIT")
	}
	test := func(pg *servers.PG, want string) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			r := sweepRig(t, pg, "CREATE TABLE a (id text PRIMARY KEY, type text, payload text, seq bigserial);;"+
				"CREATE TABLE b (id text, type text, payload text, created_at timestamptz);; CREATE TABLE c (id text, type text, payload text)",
				pgtest.Shape("tailbox", "a"), pgtest.Shape("tailbox", "b"), pgtest.Shape("tailbox", "c"))
			second := r.Connect()
			// Row 1 takes its number first and commits last.
			insert(r, "INSERT INTO a VALUES ('1', 't', 'p')", func() {
				if _, err := second.Exec(context.Background(), "INSERT INTO a VALUES ('2', 't', 'p'), ('3', 't', 'p')"); err != nil {
					t.Fatal(err)
				}
			})
			r.Exec("INSERT INTO b VALUES ('6', 't', 'p', '2026-01-02'), ('5', 't', 'p', '2026-01-01')")
			r.Exec("INSERT INTO c VALUES ('8', 't', 'p'), ('7', 't', 'p')")
			snap, _, err := r.Snapshot(true, false)
			if err != nil {
				t.Fatal(err)
			}
			r.Exec("INSERT INTO a VALUES ('9', 't', 'p')") // in the log
			if ms, _ := r.Pending(snap); pgtest.IDs(ms) != want {
				t.Errorf("swept %s, want %s", pgtest.IDs(ms), want)
			}
		}
	}
	t.Run("sequence", test(servers.Shared(t, "17"), "1 2 3 5 6 8 7"))
	t.Run("commit", test(servers.Postgres(t, "16", servers.WithSetting("track_commit_timestamp", "on")), "2 3 1 5 6 8 7"))
}

// A row that a program before tried keeps its place before those that have the same time, though it changed last.
func TestSweepOrderOfTriedRows(t *testing.T) {
	t.Parallel()
	test := func(pg *servers.PG) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			r := sweepRig(t, pg, "CREATE TABLE a (id text, type text, payload text, attempts int, created_at timestamptz(0))", pgtest.Shape("tailbox", "a"))
			r.Exec("INSERT INTO a SELECT n, 't', 'p', CASE n WHEN 3 THEN NULL ELSE 0 END, '2026-01-01' FROM generate_series(1, 4) n")
			r.Exec("UPDATE a SET attempts = 1 WHERE id = '1'")
			pgtest.Equal(t, "swept", swept(r), "1 2 3 4")
		}
	}
	t.Run("commit times", test(servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on"))))
	t.Run("none", test(servers.Shared(t, "17")))
}

// Rows of one transaction have the order in which it wrote them, wherever they lie: the place of a row that is gone is used again. So have
// transactions one after the other, even if the server does not track the time of commits.
func TestSweepOrderOfOneTransaction(t *testing.T) {
	t.Parallel()
	test := func(pg *servers.PG) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			r := sweepRig(t, pg, "CREATE TABLE a (id text, type text, payload text) WITH (autovacuum_enabled = off)", pgtest.Shape("tailbox", "a"))
			second := r.Connect()
			vacuum := func() {
				if _, err := second.Exec(context.Background(), "VACUUM a"); err != nil {
					t.Fatal(err)
				}
			}
			r.Exec("INSERT INTO a SELECT 'old ' || n, 't', 'p' FROM generate_series(1, 4) n")
			r.Exec("DELETE FROM a WHERE id IN ('old 2', 'old 3')")
			r.Exec("BEGIN")
			r.Exec("INSERT INTO a VALUES ('1', 't', 'p')")
			vacuum()
			r.Exec("INSERT INTO a VALUES ('2', 't', 'p')")
			r.Exec("SAVEPOINT s")
			r.Exec("INSERT INTO a VALUES ('3', 't', 'p')")
			r.Exec("RELEASE s")
			r.Exec("COMMIT")
			r.Exec("DELETE FROM a WHERE id IN ('old 1', 'old 4')")
			vacuum()
			r.Exec("INSERT INTO a VALUES ('4', 't', 'p')")
			if got := r.Text("SELECT string_agg(id, ' ' ORDER BY ctid) FROM a"); got != "4 2 3 1" {
				t.Fatalf("the table lies in the order %s, want 4 2 3 1", got)
			}
			pgtest.Equal(t, "swept", swept(r), "1 2 3 4")
		}
	}
	t.Run("commit times", test(servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on"))))
	t.Run("none", test(servers.Postgres(t, "17")))
}

// TestSweepLooksForWhatIsParked in the relay's own schema, and among what is parked by its own pipeline.
func TestSweepLooksForWhatIsParked(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"uuid", "bigint", "char(40)", "text"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id "+id+", type text, payload text, status text DEFAULT 'pending', seq bigserial)", pgtest.Shape("tailbox", "a"))
			row := func(n int) string {
				if id == "bigint" {
					return fmt.Sprint(n)
				}
				return sourcetest.EventID(n)
			}
			for i := range 5 {
				r.Exec("INSERT INTO a (id, type, payload) VALUES ($1::text::"+id+", 't', 'p')", row(i))
			}
			r.Exec("CREATE SCHEMA relay")
			r.Exec("CREATE TABLE relay.tailbox_parked (pipeline text, sink text, source_table text, message_id text, state text," +
				" row_settled bool DEFAULT false, unfinished bool DEFAULT false, in_table bool DEFAULT false)")
			r.Cfg.Schema = "relay"
			r.Src = stream.New(r.Cfg)
			park := func(pipeline, sink, table string, n int) {
				r.Exec("INSERT INTO relay.tailbox_parked VALUES ($1, $2, $3, $4)", pipeline, sink, table, row(n))
			}
			park(r.Cfg.Pipeline, "kafka", "public.a", 1)
			park("other", "kafka", "public.a", 3)
			park(r.Cfg.Pipeline, "kafka", "public.b", 4)
			snap, _, err := r.Snapshot(false, false)
			if err != nil {
				t.Fatal(err)
			}
			ms, at := r.Pending(snap)
			if len(ms) != 5 {
				t.Fatalf("swept %s", pgtest.IDs(ms))
			}
			for n, want := range []string{"", "kafka", "", "", ""} {
				if got := strings.Join(at[n], " "); got != want {
					t.Errorf("row %d is parked at %q, want %q", n, got, want)
				}
			}
		})
	}
}

func TestSweepOfALargeGroup(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id text PRIMARY KEY, payload bytea, type text, message_group text, headers jsonb)", pgtest.Shape("tailbox", "a"))
	r.Cfg.MaxMessage, r.Cfg.Start = 1<<20, "pending"
	r.Src = stream.New(r.Cfg)
	r.Exec("INSERT INTO a VALUES ('x', '', 'big', repeat('g', 2000000))")
	snap, _, err := r.Snapshot(true, false)
	if err != nil {
		t.Fatal(err)
	}
	ms, _ := r.Pending(snap)
	if len(ms) != 1 || ms[0].Fault == nil || ms[0].Group != outbox.StandInGroup(strings.Repeat("g", 2_000_000)) {
		t.Errorf("swept %d messages of a group that cannot be one", len(ms))
	}
}

func TestSweepOfPartitions(t *testing.T) {
	t.Parallel()
	r := pgtest.NewRig(t, servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on")), `CREATE TABLE a (id int, type text, payload text) PARTITION BY RANGE (id);;
		CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10);; CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20)`, pgtest.Shape("tailbox", "a"))
	r.Cfg.Start = "pending"
	r.Src = stream.New(r.Cfg)
	for _, id := range []string{"12", "1", "11"} {
		r.Exec("INSERT INTO a VALUES ($1, 't', 'p')", id)
	}
	snap, _, err := r.Snapshot(true, false)
	if err != nil {
		t.Fatal(err)
	}
	if ms, _ := r.Pending(snap); pgtest.IDs(ms) != "12 1 11" {
		t.Errorf("swept %s", pgtest.IDs(ms))
	}
}

// A sweep finds rows without an id each time, under the same ids, and leaves out what is parked under these.
func TestSweepOfRowsWithoutID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"uuid", "bigint", "char(40)", "text"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			r := pgtest.NewRig(t, servers.Shared(t, "17"), "CREATE TABLE a (id "+id+", type text, payload text, message_group text, status text DEFAULT 'pending');;"+
				migrate.TablesIn("").Script(), pgtest.Shape("tailbox", "a"))
			r.Own()
			r.Exec("INSERT INTO a VALUES (NULL, 't', 'p', 'g'), (NULL, 't', 'p', 'g')")
			if id == "text" || id == "char(40)" {
				r.Exec("INSERT INTO a VALUES ('', 't', 'p', 'g')")
			}
			sweep := func() ([]*outbox.Message, [][]string) {
				snap, _, err := r.Snapshot(false, false)
				if err != nil {
					t.Fatal(err)
				}
				return r.Pending(snap)
			}
			first, _ := sweep()
			if len(first) < 2 {
				t.Fatalf("swept %d", len(first))
			}
			r.Exec("INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, type, topic) "+
				"VALUES ($1, '', 'public.a', 'g', '', $2, 'dead', true, false, '', '')", r.Cfg.Pipeline, first[1].ID)
			again, at := sweep()
			if pgtest.IDs(first) != pgtest.IDs(again) {
				t.Errorf("swept again: %s, before %s", pgtest.IDs(again), pgtest.IDs(first))
			}
			for i, m := range again {
				if !outbox.IsStandInID(m.ID) || m.Fault == nil || m.Group != "g" || (i == 1) != (len(at[i]) == 1) {
					t.Errorf("row %d: %+v, parked at %q", i, m, at[i])
				}
			}
		})
	}
}
