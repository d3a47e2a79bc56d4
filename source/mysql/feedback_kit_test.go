package mysql_test

import (
	"context"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/sourcetest"
)

func kitBusiness() *sourcetest.Business {
	const delivery = "INSERT INTO told (id, outcome, n, sink, attempt, why) VALUES (:id, :outcome, :type, :sink, :attempt, :error)"
	return &sourcetest.Business{
		Feedback: outbox.Feedback{outbox.OutcomeRetrying: delivery, outbox.OutcomeDead: delivery,
			outbox.OutcomeDelivered: "INSERT INTO told (id, outcome, n, why) VALUES (:id, :outcome, :type, :receipt)"},
		Make: func(ctx context.Context, db sourcetest.Database) error {
			d := db.(*kitDatabase)
			grant := "SELECT 1"
			if d.account != "" {
				grant = "GRANT INSERT ON told TO " + d.account
			}
			return d.My.Exec(ctx, d.DB, "CREATE TABLE told (nr BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, id VARCHAR(100), outcome VARCHAR(20), n INT NOT NULL, "+
				"sink VARCHAR(50) NOT NULL DEFAULT '', attempt INT NOT NULL DEFAULT 0, why TEXT)", grant)
		},
		// The gap in which lines are added.
		Lock: func(_ context.Context, c sourcetest.Conn, _ string) error {
			return c.(*mysqltest.Conn).Exec("SELECT * FROM told FOR UPDATE")
		},
		Told: func(ctx context.Context, db sourcetest.Database) (lines []string, err error) {
			err = db.(*kitDatabase).query(ctx, "SELECT CONCAT_WS(' ', id, outcome, n, sink, attempt, why, REPEAT(' ', nr)) FROM told", func(r session.Row) error {
				lines = append(lines, r.Text(0))
				return nil
			})
			return lines, err
		},
	}
}
