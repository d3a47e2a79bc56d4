// Package snapshot reads the rows that are pending in the outbox tables at one moment. Both ways of reading begin with one: the log at a place
// in the binlog, and polling at a number of the sequence.
package snapshot

import (
	"context"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// Tables are the outbox tables at one moment: a read-only transaction on a connection of its own. Whoever begins it knows its position.
type Tables struct {
	cfg    *server.Config
	conn   *server.Conn
	sweeps []sweep
	// within, if set, is a further condition of all rows, of which t is one: the position is in the sequence, not in the log.
	within string
}

// Of is the snapshot that a connection's transaction shows. The caller has begun it, or is about to.
func Of(cfg *server.Config, conn *server.Conn, within string) *Tables {
	return &Tables{cfg: cfg, conn: conn, within: within}
}

// A sweep is what is to be delivered of one table.
type sweep struct {
	rows  *catalog.Reader
	where string
}

// Begin is the statement that begins the transaction of a snapshot.
const Begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

// LastVisible is the index of the last of the rows of a table that the snapshot shows, -1 for none.
func (s *Tables) LastVisible(ctx context.Context, info *catalog.Table, rows []*outbox.Message) (int, error) {
	const chunk = 500
	last := -1
	var list string
	ids := map[string]int{}
	ask := func() error {
		if list == "" {
			return nil
		}
		found, err := s.conn.Texts(ctx, "SELECT "+info.IDText("t")+" FROM "+quote.Table(&info.Table)+" t WHERE t."+quote.Ident(info.Columns.ID)+" IN ("+list+")")
		for _, r := range found {
			if n, ok := ids[r[0]]; ok {
				last = max(last, n)
			}
		}
		list = ""
		clear(ids)
		return server.Wrap("look for rows in the snapshot", err)
	}
	for i, m := range rows {
		if m.Table != info.String() {
			continue
		}
		literal, err := info.IDLiteral(m.ID)
		if err != nil {
			return 0, err
		}
		if list != "" {
			list += ", "
		}
		list += literal
		ids[m.ID] = i
		if len(ids) == chunk {
			if err := ask(); err != nil {
				return 0, err
			}
		}
	}
	return last, ask()
}

// Close implements source.Snapshot.
func (s *Tables) Close(ctx context.Context) error { return s.conn.Close(ctx) }
