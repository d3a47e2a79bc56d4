package outboxsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxsql"
)

// TestWriteAllParts: everything that a draft has is in the row, as the relay reads it.
func TestWriteAllParts(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{})
		at := time.Date(2031, 2, 3, 4, 5, 6, 789012000, time.FixedZone("", 3600))
		payload := []byte("\x00\xff'\\\"; DROP TABLE outbox; --\n%s ? $1")
		var id string
		r.in(func(ctx context.Context, tx *sql.Tx) {
			id = r.must(w, tx, outbox.Draft{Type: "OrderPaid", Topic: "orders", Group: "order:42", Key: "4'2", Payload: payload,
				Headers: map[string]string{"b": "<ü>", "a": "1"}, Tenant: "acme", ContentType: "application/octet-stream", IdempotencyKey: "k",
				CorrelationID: "c", Priority: -3, MaxAttempts: 7, AvailableAt: at})
		})
		for column, want := range map[string]string{"id": id, "type": "OrderPaid", "topic": "orders", "message_group": "order:42", "tenant": "acme",
			"content_type": "application/octet-stream", "idempotency_key": "k", "correlation_id": "c", "priority": "-3", "max_attempts": "7",
			"status": "pending", "attempts": "0", "last_error": "", "delivered_at": ""} {
			if got := r.text("SELECT " + column + " FROM outbox"); got != want {
				r.Errorf("%s: got %q, want %q", column, got, want)
			}
		}
		if got := strings.ReplaceAll(r.text("SELECT headers FROM outbox"), " ", ""); got != `{"a":"1","b":"<ü>"}` {
			r.Errorf("headers: %s", got)
		}
		if got := r.text("SELECT payload FROM outbox"); got != string(payload) {
			r.Errorf("payload: %q", got)
		}
		since := "SELECT extract(epoch FROM available_at)::text FROM outbox"
		if r.dialect == outbox.MySQL {
			since = "SELECT UNIX_TIMESTAMP(available_at) FROM outbox"
		}
		if got := r.text(since); got != "1927854306.789012" {
			r.Errorf("available_at: %s", got)
		}
	})
}

// TestDebezium: the shape that is the default takes a message in one line.
func TestDebezium(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("debezium"), outbox.Options{})
		r.in(func(ctx context.Context, tx *sql.Tx) {
			r.must(w, tx, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: "42", Payload: []byte(`{"order": 42}`)})
			_, err := w.Write(ctx, tx, outbox.Draft{Type: "OrderPaid", Topic: "order", Payload: []byte(`{}`)})
			if wrong, ok := errors.AsType[*outbox.DraftError](err); !ok || wrong.Field != "Key" {
				r.Errorf("without a key: %v", err)
			}
		})
		if got := r.text("SELECT count(*) FROM outbox WHERE aggregatetype = 'order' AND aggregateid = '42'"); got != "1" {
			r.Errorf("rows: %s", got)
		}
	})
}

// TestRollback: a message goes with its transaction, and a refused one leaves the transaction as it was.
func TestRollback(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{MaxMessage: 100})
		tx, err := r.db.BeginTx(r.Context(), nil)
		if err != nil {
			r.Fatal(err)
		}
		r.must(w, tx, outbox.Draft{Type: "t", Payload: []byte("p")})
		if err := tx.Rollback(); err != nil {
			r.Fatal(err)
		}
		long := strings.Repeat("x", 300)
		r.in(func(ctx context.Context, tx *sql.Tx) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (1, 'paid')"); err != nil {
				r.Fatal(err)
			}
			for _, d := range []outbox.Draft{{Type: "t"}, {Payload: []byte("p")}, {Type: "t", Payload: []byte(long)}, {Type: "t\x00\xff", Payload: []byte("p")},
				{ID: "no uuid" + long, Type: "t", Payload: []byte("p")}, {Type: "t", Payload: []byte("p"), Fields: map[string]any{"nonsense": 1}},
				{Type: "t", Payload: []byte("p"), AvailableAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
				{Type: "t", Payload: []byte("p"), Headers: map[string]string{"a": "\xff"}}} {
				_, err := w.Write(ctx, tx, d)
				if _, ok := errors.AsType[*outbox.DraftError](err); !ok {
					r.Errorf("%.100v: got %v, want a DraftError", d, err)
				}
			}
			drafts := []outbox.Draft{{Type: "t", Payload: []byte("p")}, {Type: "t", Payload: []byte(long)}}
			_, err := w.WriteAll(ctx, tx, drafts)
			if wrong, ok := errors.AsType[*outbox.DraftError](err); !ok || wrong.Index != 1 || strings.Contains(err.Error(), "xxx") {
				r.Errorf("a large one among several: %v", err)
			}
		})
		if got := r.text("SELECT count(*) FROM outbox"); got != "0" {
			r.Errorf("rows in outbox: %s, want none", got)
		}
		if got := r.text("SELECT state FROM orders"); got != "paid" {
			r.Errorf("the business change is not there: %q", got)
		}
	})
}

// TestDuplicate: a key that is there already is told, or a success, and never ends the transaction.
func TestDuplicate(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{})
		var first string
		r.in(func(ctx context.Context, tx *sql.Tx) {
			first = r.must(w, tx, outbox.Draft{Type: "t", Payload: []byte("1"), IdempotencyKey: "k"})
		})
		r.in(func(ctx context.Context, tx *sql.Tx) {
			_, err := w.Write(ctx, tx, outbox.Draft{Type: "t", Payload: []byte("2"), IdempotencyKey: "k"})
			if dup, ok := errors.AsType[*outbox.DuplicateError](err); !ok || !errors.Is(err, outbox.ErrDuplicate) || dup.First != first || dup.Column != "idempotency_key" {
				r.Errorf("a duplicate: %+v", err)
			}
			if id := r.must(w, tx, outbox.Draft{Type: "t", Payload: []byte("3"), IdempotencyKey: "k", Once: true}); id != first {
				r.Errorf("a duplicate that is a success has id %s, want %s", id, first)
			}
			// An id is no idempotency key: Once does not excuse it.
			_, err = w.Write(ctx, tx, outbox.Draft{ID: first, Type: "t", Payload: []byte("4"), IdempotencyKey: "other", Once: true})
			if dup, ok := errors.AsType[*outbox.DuplicateError](err); !ok || dup.Column != "id" {
				r.Errorf("an id that is there: %v", err)
			}
			r.must(w, tx, outbox.Draft{Type: "t", Payload: []byte("5")})
		})
		if got := r.text("SELECT count(*) FROM outbox"); got != "2" {
			r.Errorf("rows: %s, want 2", got)
		}
	})
}

// TestWriteAll: many are written in order, duplicates among them are told one by one, and a failure leaves none of them.
func TestWriteAll(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{})
		var drafts []outbox.Draft
		for i := range 1203 {
			d := outbox.Draft{Type: fmt.Sprintf("t%04d", i), Payload: []byte("p")}
			if i%100 == 7 {
				d.IdempotencyKey, d.Once = fmt.Sprint("k", i/200), true
			}
			if i%2 == 0 {
				d.Topic = "even" // another list of columns
			}
			drafts = append(drafts, d)
		}
		var ids []string
		r.in(func(ctx context.Context, tx *sql.Tx) {
			written, err := w.WriteAll(ctx, tx, drafts)
			if err != nil {
				r.Fatal(err)
			}
			byKey := map[string]string{}
			for i, one := range written {
				key := drafts[i].IdempotencyKey
				if first, ok := byKey[key]; key != "" && (one.Duplicate != ok || ok && one.ID != first) {
					r.Errorf("%d with key %s: %+v, want the first, %s", i, key, one, first)
				}
				if one.Duplicate && key == "" {
					r.Errorf("%d is a duplicate", i)
				}
				if !one.Duplicate {
					byKey[key] = one.ID
					ids = append(ids, one.ID)
				}
			}
		})
		if got := r.ids("type"); got != fmt.Sprint(ids) || len(ids) != 1203-6 {
			r.Errorf("%d ids, want those of %d rows", len(ids), 1203-6)
		}
		if got := r.ids("seq"); got != fmt.Sprint(ids) {
			r.Error("rows were not written in the order of the drafts")
		}
		r.in(func(ctx context.Context, tx *sql.Tx) {
			_, err := w.WriteAll(ctx, tx, []outbox.Draft{{Type: "new", Payload: []byte("p")}, {Type: "again", Payload: []byte("p"), IdempotencyKey: "k0"}})
			if dup, ok := errors.AsType[*outbox.DuplicateError](err); !ok || dup.Index != 1 {
				r.Errorf("a duplicate among several: %v", err)
			}
			if written, err := w.WriteAll(ctx, tx, nil); err != nil || len(written) != 0 {
				r.Errorf("none: %v, %v", written, err)
			}
		})
		if got := r.text("SELECT count(*) FROM outbox WHERE type = 'new'"); got != "0" {
			r.Error("the message before a duplicate was written")
		}
	})
}

// wrapper hides all of what it wraps but what a writer needs, and counts statements.
type wrapper struct {
	outboxsql.Tx
	n *int
}

func (w wrapper) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	*w.n++
	return w.Tx.ExecContext(ctx, query, args...)
}

// TestNoTransaction: what would be committed by itself is refused, whatever it is wrapped in.
func TestNoTransaction(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{})
		conn, err := r.db.Conn(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		defer conn.Close()
		d := outbox.Draft{Type: "t", Payload: []byte("p")}
		for name, tx := range map[string]outboxsql.Tx{"none": nil, "a pool": r.db, "a connection": conn,
			"a wrapped pool": wrapper{r.db, new(int)}, "a wrapped connection": wrapper{conn, new(int)}} {
			if _, err := w.Write(r.Context(), tx, d); !errors.Is(err, outbox.ErrNoTransaction) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if got := r.text("SELECT count(*) FROM outbox"); got != "0" {
			r.Errorf("%s rows, want none", got)
		}
	})
}

// TestBegunByHand: a transaction that its type does not show is found, and what shows one is not asked.
func TestBegunByHand(t *testing.T) {
	each(t, func(r *rig) {
		w := r.writer(r.table("tailbox"), outbox.Options{})
		conn, err := r.db.Conn(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		defer conn.Close()
		statement := func(query string) {
			r.Helper()
			if _, err := conn.ExecContext(r.Context(), query); err != nil {
				r.Fatalf("%s: %v", query, err)
			}
		}
		d := outbox.Draft{Type: "t", Payload: []byte("p")}
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			statement("BEGIN")
			r.must(w, conn, d)
			statement(end)
		}
		r.in(func(_ context.Context, tx *sql.Tx) {
			n := 0
			r.must(w, wrapper{tx, &n}, d)
			if n != 3 {
				r.Errorf("%d statements for a wrapped transaction, want 3", n)
			}
			r.must(w, struct {
				wrapper
				driver.Tx
			}{wrapper{tx, &n}, tx}, d)
			if n != 4 {
				r.Errorf("%d statements for one that has Commit, want 1", n-3)
			}
		})
		if got := r.text("SELECT count(*) FROM outbox"); got != "3" {
			r.Errorf("%s rows, want those that were committed", got)
		}
	})
}

// TestDeleteAtOnce: the row is gone with the statement after it.
func TestDeleteAtOnce(t *testing.T) {
	each(t, func(r *rig) {
		tab := r.table("debezium")
		if _, err := outboxsqlNew(r, tab, outbox.Options{DeleteAtOnce: true}); err == nil || !strings.Contains(err.Error(), `"keep"`) {
			r.Errorf("a table of which rows are deleted by the relay: %v", err)
		}
		tab.OnDelivered = outbox.Keep
		w := r.writer(tab, outbox.Options{DeleteAtOnce: true})
		r.in(func(ctx context.Context, tx *sql.Tx) {
			d := outbox.Draft{Type: "t", Topic: "order", Key: "1", Payload: []byte("{}")}
			written, err := w.WriteAll(ctx, tx, []outbox.Draft{d, d})
			if err != nil || len(written) != 2 || written[0].ID == written[1].ID {
				r.Errorf("%+v, %v", written, err)
			}
		})
		if got := r.text("SELECT count(*) FROM outbox"); got != "0" {
			r.Errorf("rows: %s, want none", got)
		}
	})
}
