package outboxpgx_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
)

// remind writes a reminder for each customer of an order, in one round trip. A customer who got one before gets no other, however often it is
// called.
func remind(ctx context.Context, pool *pgxpool.Pool, w *outboxpgx.Writer, order string, customers []string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE orders SET state = 'reminded' WHERE id = $1", order); err != nil {
			return err
		}
		var drafts []outbox.Draft
		for _, c := range customers {
			drafts = append(drafts, outbox.Draft{
				Type: "Reminder", Topic: "mail", Group: "customer:" + c, Payload: []byte("Please pay " + order + "."),
				IdempotencyKey: outbox.Key("reminder", order, c), Once: true,
			})
		}
		written, err := w.WriteAll(ctx, tx, drafts)
		if err != nil {
			return err
		}
		for i, one := range written {
			if one.Duplicate {
				fmt.Printf("%s was reminded before, by %s\n", customers[i], one.ID)
			}
		}
		return nil
	})
}

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	table, err := outbox.NewTable("tailbox", "public.outbox")
	if err != nil {
		panic(err)
	}
	w, err := outboxpgx.New(ctx, pool, table, outbox.Options{})
	if err != nil {
		panic(err)
	}
	if err := remind(ctx, pool, w, "42", []string{"ann", "bob"}); err != nil {
		if wrong, ok := errors.AsType[*outbox.DraftError](err); ok {
			fmt.Println("this message cannot be written:", wrong.Field, wrong.Reason)
		}
		panic(err)
	}
}

// TestExample runs it twice.
func TestExample(t *testing.T) {
	r := newRig(t, "tailbox", pgx.QueryExecModeCacheStatement)
	if _, err := r.pool.Exec(t.Context(), "ALTER TABLE orders ALTER id TYPE text; INSERT INTO orders VALUES ('42', 'new')", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", r.pool.Config().ConnString())
	Example()
	Example()
	if n := r.count("type = 'Reminder' AND message_group IN ('customer:ann', 'customer:bob')"); n != 2 || r.count("true") != 2 {
		t.Errorf("rows: %d of %d", n, r.count("true"))
	}
}
