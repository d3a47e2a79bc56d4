package hostile

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/test/e2e"
)

type postgresTable struct {
	bed  *e2e.Bed
	conn *pgx.Conn
}

func (t *postgresTable) options() e2e.Options {
	return e2e.Options{Kind: "postgres", Tables: "\n    - {name: public.events, shape: tailbox}\n",
		Schema: `CREATE TABLE events (id text PRIMARY KEY, type text, topic text, message_group text, key text, tenant text, headers json, payload bytea,
			status text NOT NULL DEFAULT 'pending', attempts int, next_attempt_at timestamptz, last_error text, delivered_at timestamptz)`}
}

func (t *postgresTable) open(tb testing.TB, b *e2e.Bed) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), b.PG.SocketURL(b.DB))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) }) // whatever state it is in
	t.bed, t.conn = b, conn
}

func (t *postgresTable) insert(ctx context.Context, row *Row) error {
	var headers any
	if row.Headers != nil {
		headers = string(row.Headers)
	}
	_, err := t.conn.Exec(ctx, "INSERT INTO events (id, type, topic, message_group, key, tenant, headers, payload) VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8)",
		row.column("id"), row.column("type"), row.column("topic"), row.column("group"), row.column("key"), row.column("tenant"), headers, row.Payload)
	return err
}

func (t *postgresTable) parked(ctx context.Context) (list []parked, err error) {
	rows, err := t.conn.Query(ctx, "SELECT message_id, message_group, state, coalesce(error_class, ''), coalesce(last_error, '') FROM tailbox_parked")
	if err != nil {
		return nil, err
	}
	var p parked
	_, err = pgx.ForEachRow(rows, []any{&p.id, &p.group, &p.state, &p.class, &p.reason}, func() error {
		list = append(list, p)
		return nil
	})
	return list, err
}
