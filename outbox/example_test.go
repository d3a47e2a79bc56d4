package outbox_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// newInsert is called once. The query reads the table's description. All its columns are text.
func newInsert(ctx context.Context, conn *pgx.Conn, table outbox.Table) (*outbox.Insert, error) {
	query, args := outbox.Postgres.Catalog(&table)
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var catalog [][]string
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(values))
		for i := range values {
			texts[i] = values[i].(string)
		}
		catalog = append(catalog, texts)
	}
	if rows.Err() != nil {
		return nil, rows.Err()
	}
	return outbox.NewInsert(outbox.Postgres, table, catalog, outbox.Options{})
}

// insert writes a message whose id the builder makes, and that has no idempotency key.
func insert(ctx context.Context, tx pgx.Tx, in *outbox.Insert, d outbox.Draft) (id string, err error) {
	row, err := in.Row(d)
	if err != nil {
		return "", err
	}
	st := in.Statement([]*outbox.Row{row})
	_, err = tx.Exec(ctx, st.SQL, st.Args...)
	return row.ID, err
}

func Example() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer conn.Close(ctx)
	table, err := outbox.NewTable("debezium", "public.outbox")
	if err != nil {
		panic(err)
	}
	in, err := newInsert(ctx, conn, table)
	if err != nil {
		panic(err)
	}
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		_, err := insert(ctx, tx, in, outbox.Draft{Type: "OrderPaid", Topic: "order", Key: "42", Payload: []byte(`{"order": 42}`)})
		return err
	}); err != nil {
		fmt.Println("the message is not written:", err)
	}
}

// TestExample runs it.
func TestExample(t *testing.T) {
	pg := servers.Shared(t, "17")
	name := pg.NewDatabase(t)
	script, err := postgres.Config{Config: source.Config{Pipeline: "shop", Tables: []outbox.Table{table(t, "debezium")}}, Publication: "shop"}.SetupScript()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Exec(t.Context(), name, script); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DATABASE_URL", pg.SocketURL(name))
	Example()
	if err := pg.Exec(t.Context(), name, "DO $$ BEGIN ASSERT (SELECT count(*) FROM outbox WHERE aggregateid = '42') = 1; END $$"); err != nil {
		t.Error(err)
	}
}
