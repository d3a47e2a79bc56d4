package outboxpgx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// A rig is a database with an outbox table.
type rig struct {
	*testing.T
	pool  *pgxpool.Pool
	table outbox.Table
}

// each runs a test with every way of pgx to execute statements.
func each(t *testing.T, shape string, f func(r *rig)) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			f(newRig(t, shape, mode))
		})
	}
}

func newRig(t *testing.T, shape string, mode pgx.QueryExecMode) *rig {
	t.Helper()
	version := "15" // the oldest here, and the newest
	if mode == pgx.QueryExecModeCacheStatement {
		version = "18"
	}
	pg := servers.Shared(t, version)
	name := pg.NewDatabase(t)
	c, err := pgxpool.ParseConfig(pg.SocketURL(name))
	if err != nil {
		t.Fatal(err)
	}
	c.ConnConfig.DefaultQueryExecMode = mode
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	tab, err := outbox.NewTable(shape, "public.outbox")
	if err != nil {
		t.Fatal(err)
	}
	script, err := postgres.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{tab}}, Publication: "shop"}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Exec(t.Context(), name, script+"; CREATE TABLE orders (id int PRIMARY KEY, state text)"); err != nil {
		t.Fatal(err)
	}
	return &rig{t, pool, tab}
}

func (r *rig) writer(t outbox.Table, o outbox.Options) *outboxpgx.Writer {
	r.Helper()
	w, err := outboxpgx.New(r.Context(), r.pool, t, o)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// in runs f in a transaction, and commits it.
func (r *rig) in(f func(ctx context.Context, tx pgx.Tx)) {
	r.Helper()
	if err := pgx.BeginFunc(r.Context(), r.pool, func(tx pgx.Tx) error { f(r.Context(), tx); return nil }); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) count(where string) int {
	r.Helper()
	var n int
	if err := r.pool.QueryRow(r.Context(), "SELECT count(*) FROM outbox WHERE "+where).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// TestWrite goes through all that a writer does, with each way to execute statements.
func TestWrite(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		w := r.writer(r.table, outbox.Options{})
		payload := []byte("\x00\xff'; --")
		var first string
		r.in(func(ctx context.Context, tx pgx.Tx) {
			var err error
			first, err = w.Write(ctx, tx, outbox.Draft{Type: "OrderPaid", Group: "g", Payload: payload, Headers: map[string]string{"a": "ü"}, Priority: 2, IdempotencyKey: "k"})
			if err != nil {
				r.Fatal(err)
			}
		})
		var got []byte
		var header string
		if err := r.pool.QueryRow(r.Context(), "SELECT payload, headers->>'a' FROM outbox WHERE id = $1::text::uuid AND priority = 2", first).Scan(&got, &header); err != nil ||
			string(got) != string(payload) || header != "ü" {
			r.Errorf("row: %q %q %v", got, header, err)
		}
		r.in(func(ctx context.Context, tx pgx.Tx) {
			if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES (1, 'paid')"); err != nil {
				r.Fatal(err)
			}
			again := outbox.Draft{Type: "again", Payload: payload, IdempotencyKey: "k"}
			if _, err := w.Write(ctx, tx, again); !errors.Is(err, outbox.ErrDuplicate) {
				r.Errorf("a duplicate: %v", err)
			}
			if _, err := w.WriteAll(ctx, tx, []outbox.Draft{{Type: "before", Payload: payload}, again}); !errors.Is(err, outbox.ErrDuplicate) {
				r.Errorf("a duplicate among several: %v", err)
			}
			again.Once = true
			written, err := w.WriteAll(ctx, tx, []outbox.Draft{{Type: "new", Payload: payload}, again, {Type: "new", Payload: payload}})
			if err != nil || len(written) != 3 || !written[1].Duplicate || written[1].ID != first || written[0].Duplicate || written[2].Duplicate {
				r.Errorf("duplicates that are successes: %+v, %v", written, err)
			}
			if _, err := w.Write(ctx, tx, outbox.Draft{Type: "large", Payload: make([]byte, 17<<20)}); err == nil || !strings.Contains(err.Error(), "max_message") {
				r.Errorf("too large: %v", err)
			}
		})
		if n := r.count("type = 'new'"); n != 2 || r.count("true") != 3 {
			r.Errorf("new rows: %d, all: %d", n, r.count("true"))
		}
		tx, err := r.pool.Begin(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		if _, err := w.Write(r.Context(), tx, outbox.Draft{Type: "gone", Payload: payload}); err != nil {
			r.Error(err)
		}
		if err := tx.Rollback(r.Context()); err != nil {
			r.Error(err)
		}
		if r.count("type = 'gone'") != 0 {
			r.Error("a message outlived its transaction")
		}
	})
}

// TestMany: thousands go in one round trip, ids made by the database come back in order.
func TestMany(t *testing.T) {
	each(t, "debezium", func(r *rig) {
		drafts := make([]outbox.Draft, 2500)
		for i := range drafts {
			drafts[i] = outbox.Draft{Type: fmt.Sprint(i), Topic: "order", Key: "1", Payload: []byte(`{"a": 1}`)}
		}
		if _, err := r.pool.Exec(r.Context(), "CREATE TABLE numbered (id bigserial PRIMARY KEY, kind text, body jsonb)"); err != nil {
			r.Fatal(err)
		}
		numbered := outbox.Table{Name: "numbered", Columns: outbox.Columns{ID: "id", Type: "kind", Payload: "body"}}
		w, n := r.writer(r.table, outbox.Options{}), r.writer(numbered, outbox.Options{Savepoint: true})
		r.in(func(ctx context.Context, tx pgx.Tx) {
			written, err := w.WriteAll(ctx, tx, drafts)
			if err != nil || len(written) != len(drafts) {
				r.Fatalf("%d written, %v", len(written), err)
			}
			small := []outbox.Draft{{Type: "a", Payload: []byte("1")}, {Type: "b", Payload: []byte("2")}, {ID: "2", Type: "c", Payload: []byte("3")}}
			// The id that was given is the one that the database made for the draft before it.
			if _, err = n.WriteAll(ctx, tx, small); !errors.Is(err, outbox.ErrDuplicate) {
				r.Errorf("an id twice: %v", err)
			}
			written, err = n.WriteAll(ctx, tx, small[:2])
			if err != nil || written[0].ID != "3" || written[1].ID != "4" {
				r.Errorf("ids of the database: %+v, %v", written, err)
			}
			if _, err := n.Write(ctx, tx, outbox.Draft{Type: "a", Payload: []byte("1"), Fields: map[string]any{"nonsense": 1}}); err == nil {
				r.Error("a column that is not there was written")
			}
		})
		if got := r.count("true"); got != 2500 {
			r.Errorf("rows: %d", got)
		}
	})
}

// TestSavepoint: an error of the database leaves the transaction usable, with and without a batch.
func TestSavepoint(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		if _, err := r.pool.Exec(r.Context(), "ALTER TABLE outbox ADD CHECK (priority < 5)"); err != nil {
			r.Fatal(err)
		}
		w := r.writer(r.table, outbox.Options{Savepoint: true})
		r.in(func(ctx context.Context, tx pgx.Tx) {
			for _, tx := range []outboxpgx.Tx{tx, plain{tx}} {
				if _, err := w.Write(ctx, tx, outbox.Draft{Type: "t", Payload: []byte("p"), Priority: 7}); err == nil {
					r.Error("a row that breaks a constraint was written")
				}
				if _, err := w.Write(ctx, tx, outbox.Draft{Type: "t", Payload: []byte("p"), Priority: 4}); err != nil {
					r.Error(err)
				}
			}
		})
		if got := r.count("true"); got != 2 {
			r.Errorf("rows: %d", got)
		}
	})
}

// TestSavepointBeforehand: so does what pgx itself refuses, before the database has seen a row.
func TestSavepointBeforehand(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		exec := func(sql string) {
			r.Helper()
			if _, err := r.pool.Exec(r.Context(), sql); err != nil {
				r.Fatal(err)
			}
		}
		exec("ALTER TABLE outbox ADD n int, ADD gone int")
		w := r.writer(r.table, outbox.Options{Savepoint: true})
		exec("ALTER TABLE outbox DROP gone")
		draft := func(kind string, fields map[string]any) outbox.Draft {
			return outbox.Draft{Type: kind, Payload: []byte("p"), Fields: fields}
		}
		for _, fields := range []map[string]any{{"n": 1.5}, {"n": []int{1}}, {"gone": 1}} {
			for _, several := range []bool{false, true} {
				kind := fmt.Sprint(fields, several)
				drafts := []outbox.Draft{draft(kind, fields)}
				if several {
					good := draft(kind, map[string]any{"n": 1})
					drafts = []outbox.Draft{good, drafts[0], good}
				}
				r.in(func(ctx context.Context, tx pgx.Tx) {
					_, failed := w.WriteAll(ctx, tx, drafts)
					var n, want int
					if failed == nil && fields["n"] != nil {
						want = len(drafts) // the simple protocol lets the database round
					}
					if err := tx.QueryRow(ctx, "SELECT count(*) FROM outbox WHERE type = $1", kind).Scan(&n); err != nil || n != want {
						r.Errorf("%s: %d rows after %v, want %d; %v", kind, n, failed, want, err)
					}
				})
			}
		}
		r.in(func(ctx context.Context, tx pgx.Tx) {
			keyed := outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k"}
			written, err := w.WriteAll(ctx, tx, []outbox.Draft{draft("t", nil), keyed, draft("t", map[string]any{"n": 2})})
			if err != nil || len(written) != 3 {
				r.Errorf("%+v, %v", written, err)
			}
		})
	})
}

// plain hides all of a transaction but what a writer needs.
type plain struct{ tx outboxpgx.Tx }

func (p plain) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.tx.Exec(ctx, sql, args...)
}

func (p plain) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.tx.Query(ctx, sql, args...)
}

// TestNoTransaction: what would be committed by itself is refused.
func TestNoTransaction(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		w := r.writer(r.table, outbox.Options{})
		conn, err := r.pool.Acquire(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		defer conn.Release()
		for _, tx := range []outboxpgx.Tx{nil, r.pool, conn, conn.Conn(), plain{r.pool}, plain{conn}} {
			if _, err := w.Write(r.Context(), tx, outbox.Draft{Type: "t", Payload: []byte("p")}); !errors.Is(err, outbox.ErrNoTransaction) {
				r.Errorf("%T: %v", tx, err)
			}
		}
	})
}

// TestRepeatableRead: a key that another transaction wrote meanwhile is a conflict that is known as one, and found at the next attempt.
func TestRepeatableRead(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		w := r.writer(r.table, outbox.Options{})
		d := outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k", Once: true}
		first, ran := "", 0
		do := w.Transactor(r.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		attempt := func() ([]outbox.Written, error) {
			return do.Do(r.Context(), func(ctx context.Context, tx pgx.Tx) ([]outbox.Draft, error) {
				if _, err := tx.Exec(ctx, "SELECT FROM outbox"); err != nil { // takes the snapshot
					return nil, err
				}
				if ran++; ran == 1 {
					r.in(func(ctx context.Context, tx pgx.Tx) {
						var err error
						if first, err = w.Write(ctx, tx, d); err != nil {
							r.Error(err)
						}
					})
				}
				return []outbox.Draft{d}, nil
			})
		}
		if _, err := attempt(); !do.Retryable(err) {
			r.Errorf("the conflict: %v", err)
		}
		if written, err := attempt(); err != nil || !written[0].Duplicate || written[0].ID != first {
			r.Errorf("the next attempt: %+v, %v", written, err)
		}
	})
}

// TestSuppressed: a row that a trigger takes away is not told to be written.
func TestSuppressed(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		for _, sql := range []string{"CREATE FUNCTION suppress() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
			"CREATE TRIGGER suppress BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION suppress()"} {
			if _, err := r.pool.Exec(r.Context(), sql); err != nil {
				r.Fatal(err)
			}
		}
		w := r.writer(r.table, outbox.Options{})
		r.in(func(ctx context.Context, tx pgx.Tx) {
			for _, d := range []outbox.Draft{{Type: "t", Payload: []byte("p")}, {Type: "t", Payload: []byte("p"), IdempotencyKey: "k", Once: true}} {
				if _, err := w.Write(ctx, tx, d); err == nil || !strings.Contains(err.Error(), "trigger") {
					r.Errorf("%+v: %v", d, err)
				}
			}
		})
	})
}

// TestPrivileges: an application that may only insert can write, unless it asks for ids or keys.
func TestPrivileges(t *testing.T) {
	each(t, "tailbox", func(r *rig) {
		w := r.writer(r.table, outbox.Options{})
		role := "only_" + strings.ReplaceAll(outbox.NewID(), "-", "")
		for _, sql := range []string{"CREATE ROLE " + role, "GRANT INSERT ON outbox TO " + role, "GRANT USAGE ON SEQUENCE outbox_seq_seq TO " + role} {
			if _, err := r.pool.Exec(r.Context(), sql); err != nil {
				r.Fatal(err)
			}
		}
		defer func() {
			if _, err := r.pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol); err != nil {
				r.Error(err)
			}
		}()
		r.in(func(ctx context.Context, tx pgx.Tx) {
			if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+role); err != nil {
				r.Fatal(err)
			}
			d := outbox.Draft{Type: "t", Payload: []byte("p")}
			if _, err := w.WriteAll(ctx, tx, []outbox.Draft{d, d}); err != nil {
				r.Error(err)
			}
			d.IdempotencyKey = "k"
			if _, err := w.Write(ctx, tx, d); err != nil {
				r.Errorf("with a key: %v", err)
			}
		})
	})
}
