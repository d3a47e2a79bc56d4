package polling

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/report"
)

// Report tells what was drawn, and which transactions are open that may have drawn numbers.
func Report(ctx context.Context, cfg *server.Config, conn *server.Conn) (polled *report.Poll, err error) {
	for _, sql := range uncached(conn.Server) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("set up session: %w", err)
		}
	}
	for i := range cfg.Tables {
		info, err := catalog.Describe(ctx, conn, &cfg.Tables[i])
		if err != nil {
			return nil, err
		}
		t := &Table{cfg: cfg, conn: conn, table: info, looks: newLooks()}
		last, _, err := t.Last(ctx)
		if err != nil {
			return nil, err
		}
		polled = &report.Poll{Sequence: fmt.Sprintf("%s.%s", info, info.Columns.Seq), Last: last}
		right, err := MayListTransactions(ctx, conn)
		if err != nil {
			return nil, err
		}
		if right != nil {
			continue
		}
		list, _, _, err := t.Holders(ctx)
		if err != nil {
			return nil, err
		}
		for _, h := range list {
			polled.Open = append(polled.Open, h.About)
		}
	}
	return polled, nil
}
