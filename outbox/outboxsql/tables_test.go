package outboxsql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxsql"
)

func outboxsqlNew(r *rig, t outbox.Table, o outbox.Options) (*outboxsql.Writer, error) {
	return outboxsql.New(r.Context(), r.db, r.dialect, t, o)
}

// TestOtherTables: tables of others get what they demand.
func TestOtherTables(t *testing.T) {
	each(t, func(r *rig) {
		pg := r.dialect == outbox.Postgres
		serial, uuid, moment, local := "bigint AUTO_INCREMENT PRIMARY KEY", "BINARY(16)", "timestamp(6)", "datetime(6)"
		if pg {
			serial, uuid, moment, local = "bigserial PRIMARY KEY", "uuid", "timestamptz", "timestamp"
		}
		r.exec("CREATE TABLE mails (id "+serial+", memo_id "+uuid+" NOT NULL, recipient varchar(20) NOT NULL, kind varchar(100) NOT NULL, body text NOT NULL, "+
			"status smallint NOT NULL, tries int NOT NULL, made_at "+local+" NOT NULL, due "+moment+" NULL, dedup varchar(40), tenant int, UNIQUE (dedup, tenant))",
			"CREATE TABLE short (id varchar(13) PRIMARY KEY, kind text NOT NULL, body text NOT NULL, heads text NOT NULL)")
		tab := outbox.Table{Name: "mails", Columns: outbox.Columns{ID: "id", Type: "kind", Payload: "body", Status: "status", Attempts: "tries", CreatedAt: "made_at",
			AvailableAt: "due", IdempotencyKey: "dedup", Tenant: "tenant"}, Words: outbox.Words{Pending: "7"}}
		w := r.writer(tab, outbox.Options{})
		memo := any(outbox.NewID())
		if !pg {
			memo = []byte("0123456789abcdef")
		}
		mail := outbox.Draft{Type: "mail", Payload: []byte("hello"), Tenant: "1", Fields: map[string]any{"memo_id": memo, "recipient": "a@example.org"}}
		r.in(func(ctx context.Context, tx *sql.Tx) {
			written, err := w.WriteAll(ctx, tx, []outbox.Draft{mail, mail})
			if err != nil || written[0].ID != "1" || written[1].ID != "2" {
				r.Fatalf("ids of the database: %+v, %v", written, err)
			}
			bad := mail
			bad.Fields = map[string]any{"memo_id": memo}
			_, err = w.Write(ctx, tx, bad)
			if wrong, ok := errors.AsType[*outbox.DraftError](err); !ok || wrong.Field != "Fields[recipient]" {
				r.Errorf("without what may not be NULL: %v", err)
			}
			bad.Fields = map[string]any{"memo_id": memo, "recipient": strings.Repeat("ü", 21)}
			if _, err = w.Write(ctx, tx, bad); err == nil || !strings.Contains(err.Error(), "21 characters") {
				r.Errorf("a recipient that is too long: %v", err)
			}
			// The key is unique for each tenant.
			keyed := mail
			keyed.IdempotencyKey, keyed.Once = "k", true
			first := r.must(w, tx, keyed)
			if id := r.must(w, tx, keyed); id != first {
				r.Errorf("again: %s, want %s", id, first)
			}
			keyed.Tenant = "2"
			if id := r.must(w, tx, keyed); id == first {
				r.Error("another tenant's message is a duplicate")
			}
		})
		if got := r.text("SELECT CONCAT(status, ' ', tries, ' ', body) FROM mails WHERE id = 2"); got != "7 0 hello" {
			r.Errorf("row: %s", got)
		}
		age := "SELECT CASE WHEN abs(extract(epoch FROM (now() AT TIME ZONE 'UTC') - made_at)) < 3600 THEN 'new' END FROM mails WHERE id = 1"
		if !pg {
			age = "SELECT IF(ABS(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), made_at)) < 3600, 'new', made_at) FROM mails WHERE id = 1"
		}
		if got := r.text(age); got != "new" {
			r.Errorf("made at: %s", got)
		}

		tab = outbox.Table{Name: "short", Columns: outbox.Columns{ID: "id", Type: "kind", Payload: "body", Headers: "heads"}}
		r.in(func(ctx context.Context, tx *sql.Tx) {
			_, err := r.writer(tab, outbox.Options{}).Write(ctx, tx, outbox.Draft{Type: "t", Payload: []byte("p")})
			if err == nil || !strings.Contains(err.Error(), "NewID") {
				r.Errorf("an id column that is too short: %v", err)
			}
			own := r.writer(tab, outbox.Options{NewID: func() string { return "0HZXEQ5Y8JY5Z" }})
			if id := r.must(own, tx, outbox.Draft{Type: "t", Payload: []byte("p")}); id != "0HZXEQ5Y8JY5Z" {
				r.Errorf("id %s", id)
			}
		})
		if got := r.text("SELECT heads FROM short"); got != "{}" {
			r.Errorf("headers that may not be NULL: %q", got)
		}
	})
}

// TestNew: what is wrong with a table is told when the writer is made.
func TestNew(t *testing.T) {
	each(t, func(r *rig) {
		tab := r.table("tailbox")
		tab.Columns.Payload = "body"
		if _, err := outboxsqlNew(r, tab, outbox.Options{}); err == nil || !strings.Contains(err.Error(), "no column body") {
			r.Errorf("a column that is not there: %v", err)
		}
		tab.Name = "nonsense"
		if _, err := outboxsqlNew(r, tab, outbox.Options{}); err == nil || !strings.Contains(err.Error(), "does not exist") {
			r.Errorf("a table that is not there: %v", err)
		}
	})
}

// TestSavepoint: with it, even an error of the database leaves the transaction usable.
func TestSavepoint(t *testing.T) {
	each(t, func(r *rig) {
		tab := r.table("tailbox")
		r.exec("ALTER TABLE outbox ADD COLUMN order_id int REFERENCES orders(id)")
		if r.dialect == outbox.MySQL {
			r.exec("ALTER TABLE outbox ADD FOREIGN KEY (order_id) REFERENCES orders(id)")
		}
		w := r.writer(tab, outbox.Options{Savepoint: true})
		r.in(func(ctx context.Context, tx *sql.Tx) {
			_, err := w.Write(ctx, tx, outbox.Draft{Type: "t", Payload: []byte("p"), Fields: map[string]any{"order_id": 99}})
			if err == nil {
				r.Error("a row that refers to nothing was written")
			}
			r.must(w, tx, outbox.Draft{Type: "t", Payload: []byte("p")})
		})
		if got := r.text("SELECT count(*) FROM outbox"); got != "1" {
			r.Errorf("rows: %s", got)
		}
	})
}

// TestConcurrentDuplicate: of two transactions with one key the second waits for the first, and finds its message.
func TestConcurrentDuplicate(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{})
		d := outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: "k", Once: true}
		tx, err := r.db.BeginTx(r.Context(), nil)
		if err != nil {
			r.Fatal(err)
		}
		first := r.must(w, tx, d)
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				r.in(func(ctx context.Context, tx *sql.Tx) {
					// A snapshot from before the first message was committed does not hide it.
					if _, err := tx.ExecContext(ctx, "INSERT INTO orders SELECT id, 'x' FROM orders WHERE id < 0"); err != nil {
						r.Error(err)
					}
					written, err := w.WriteAll(ctx, tx, []outbox.Draft{d})
					if err != nil || !written[0].Duplicate || written[0].ID != first {
						r.Errorf("%+v, %v; want the first, %s", written, err, first)
					}
				})
			})
		}
		waiting := "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		if r.dialect == outbox.MySQL {
			waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'INSERT INTO `outbox`%' AND time_ms > 50"
			if r.kind == "mysql" {
				waiting = "SELECT COUNT(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id WHERE p.db = DATABASE() AND x.trx_state = 'LOCK WAIT'"
			}
		}
		// InnoDB tells anew what waits only to those who have not asked for 100 ms. Whoever is not seen in time comes after the commit,
		// and long before the server's lock timeout.
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(10 * time.Second)
		for late := false; !late && r.text(waiting) != "3"; {
			select {
			case <-tick.C:
			case <-deadline:
				late = true
			}
		}
		if err := tx.Commit(); err != nil {
			r.Fatal(err)
		}
		wait.Wait()
	})
}

// TestOtherIndex: a row that breaks a unique index which is not the outbox's own leaves none of those before it behind.
func TestOtherIndex(t *testing.T) {
	each(t, func(r *rig) {
		r.exec("CREATE TABLE numbered (id varchar(40) PRIMARY KEY, body text, number int UNIQUE)", "INSERT INTO numbered VALUES ('there', 'x', 3)")
		tab := outbox.Table{Name: "numbered", Columns: outbox.Columns{ID: "id", Payload: "body"}}
		w := r.writer(tab, outbox.Options{Savepoint: true})
		var drafts []outbox.Draft
		for n := 1; n <= 3; n++ {
			drafts = append(drafts, outbox.Draft{Payload: []byte("new"), Fields: map[string]any{"number": n}})
		}
		r.in(func(ctx context.Context, tx *sql.Tx) {
			if written, err := w.WriteAll(ctx, tx, drafts); err == nil || errors.Is(err, outbox.ErrDuplicate) {
				r.Errorf("a number that is there: %+v, %v", written, err)
			}
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM numbered WHERE body = 'new'").Scan(&n); err != nil || n != 0 {
				r.Errorf("%d rows of a call that failed, %v", n, err)
			}
		})
	})
}
