package status

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/polling"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/store/report"
)

// reportPoll reports the last number of the sequence, and the open transactions that have drawn numbers.
func reportPoll(ctx context.Context, s *pgstore.Store, r *Report) error {
	for i := range s.Cfg.Tables {
		info, err := catalog.Describe(ctx, s.Conn.PgConn(), &s.Cfg.Tables[i])
		if err != nil {
			return err
		}
		seq, err := polling.SequenceOf(ctx, s.Conn, info)
		if err != nil {
			return err
		}
		if seq == nil || !seq.Readable {
			return nil // tailbox check reports the reason
		}
		var last int64
		if err := s.Conn.QueryRow(ctx, "SELECT "+seq.Last()+" FROM "+seq.Name+" s").Scan(&last); err != nil {
			return s.Fault("read the sequence", err)
		}
		p := &report.Poll{Sequence: seq.Name, Last: uint64(max(last, 0))}
		rows, err := s.Conn.Query(ctx, "SELECT coalesce('pid ' || h.pid, 'prepared ' || h.virtualtransaction), a.xact_start FROM ("+polling.HoldersSQL+
			") h LEFT JOIN pg_stat_activity a ON a.pid = h.pid ORDER BY a.xact_start NULLS FIRST", seq.OID)
		if err != nil {
			return s.Fault("list transactions that have drawn numbers", err)
		}
		var since *time.Time
		var who string
		if _, err := pgx.ForEachRow(rows, []any{&who, &since}, func() error {
			if since != nil {
				who += fmt.Sprintf(" since %s", since.Format(time.RFC3339))
			}
			p.Open = append(p.Open, who)
			return nil
		}); err != nil {
			return s.Fault("list transactions that have drawn numbers", err)
		}
		r.Poll = p
	}
	return nil
}
