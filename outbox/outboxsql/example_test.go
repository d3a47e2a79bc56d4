package outboxsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxsql"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

// newWriter is called once, when the application starts.
func newWriter(ctx context.Context, db *sql.DB) (*outboxsql.Writer, error) {
	table, err := outbox.NewTable("debezium", "public.outbox")
	if err != nil {
		return nil, err
	}
	return outboxsql.New(ctx, db, outbox.Postgres, table, outbox.Options{})
}

// payOrder marks an order as paid and writes the message OrderPaid, or does neither.
func payOrder(ctx context.Context, db *sql.DB, w *outboxsql.Writer, order int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", order); err != nil {
		return err
	}
	payload, err := outbox.JSON(map[string]int{"order": order})
	if err != nil {
		return err
	}
	_, err = w.Write(ctx, tx, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: strconv.Itoa(order), Payload: payload})
	if err != nil {
		return err
	}
	return tx.Commit()
}

func Example() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer db.Close()
	w, err := newWriter(ctx, db)
	if err != nil {
		panic(err)
	}
	if err := payOrder(ctx, db, w, 42); err != nil {
		fmt.Println("the order is not paid:", err)
	}
}

// TestExample runs it.
func TestExample(t *testing.T) {
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	table, err := outbox.NewTable("debezium", "public.outbox")
	if err != nil {
		t.Fatal(err)
	}
	script, err := postgres.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{table}}, Publication: "shop"}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Exec(t.Context(), name, script+"; CREATE TABLE orders (id int, state text); INSERT INTO orders VALUES (42, 'new')"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", pg.URL(name))
	Example()
	r := newRigOf(t, pg.URL(name))
	if got := r.text("SELECT state || ' ' || type || ' ' || (payload->>'order') FROM orders, outbox"); got != "paid OrderPaid 42" {
		t.Errorf("got %q", got)
	}
}

// newRigOf is a rig with a database that exists.
func newRigOf(t *testing.T, url string) *rig {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &rig{T: t, db: db, dialect: outbox.Postgres}
}
