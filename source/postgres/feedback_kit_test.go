package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sourcetest"
)

func kitBusiness() *sourcetest.Business {
	const delivery = `INSERT INTO told (id, outcome, n, sink, attempt, why) VALUES (:id, :outcome, :type, :sink, :attempt, :error)`
	return &sourcetest.Business{
		Feedback: outbox.Feedback{outbox.OutcomeRetrying: delivery, outbox.OutcomeDead: delivery,
			outbox.OutcomeDelivered: `INSERT INTO told (id, outcome, n, why) VALUES (:id, :outcome, :type, :receipt)`},
		Make: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			return d.PG.Exec(ctx, d.DB, `CREATE TABLE told (nr bigserial PRIMARY KEY, id text, outcome text, n int NOT NULL, sink text NOT NULL DEFAULT '',
				attempt int NOT NULL DEFAULT 0, why text); GRANT INSERT ON told TO PUBLIC; GRANT USAGE ON SEQUENCE told_nr_seq TO PUBLIC`)
		},
		Lock: func(ctx context.Context, c sourcetest.Conn, _ string) error {
			return c.(*kitConn).exec(ctx, "LOCK TABLE told IN ACCESS EXCLUSIVE MODE")
		},
		Told: func(ctx context.Context, db sourcetest.Database) ([]string, error) {
			d := db.(*kitDatabase)
			conn, err := pgx.Connect(ctx, d.PG.SocketURL(d.DB))
			if err != nil {
				return nil, err
			}
			defer func() { _ = conn.Close(ctx) }()
			rows, err := conn.Query(ctx, "SELECT concat_ws(' ', id, outcome, n, sink, attempt, why, repeat(' ', nr::int)) FROM told")
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		},
	}
}
