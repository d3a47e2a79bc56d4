package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/store"
)

// LastNumber implements relational.RowFinder.
func (s *Store) LastNumber(ctx context.Context) (last uint64, err error) {
	b := s.Batch()
	for _, t := range s.tables.Order {
		if t.Columns.Seq == "" {
			return 0, fmt.Errorf("read the highest number of %s: it has no sequence column: %w", t, source.ErrStop)
		}
		b.Each(func(r session.Row) error {
			last = max(last, r.Unsigned(0))
			return nil
		}, "SELECT COALESCE(MAX("+quote.Ident(t.Columns.Seq)+"), 0) FROM "+t.SQL)
	}
	if err := s.Send(ctx, b); err != nil {
		return 0, server.Fault("read the highest number", err)
	}
	return last, nil
}

// pendingWindow is how many rows one statement looks at, so that the session is never busy for long.
const pendingWindow = 10000

// LogEnd implements relational.RowFinder.
func (s *Store) LogEnd(ctx context.Context, out *checkpoint.PendingRows) error {
	end, err := server.ReadLogEnd(ctx, s.Conn)
	if err != nil {
		return server.Fault("read the log's end", err)
	}
	out.Barrier, out.Commit = end.Position.String(), end.Position.Ordinal()
	err = s.InTx(ctx, func(b *session.Batch) {
		b.Exec(`UPDATE {checkpoint} SET updated_at = UTC_TIMESTAMP(6) WHERE pipeline = ?`, s.Config.Pipeline)
	})
	if err != nil {
		return server.Fault("write past the log's end", err)
	}
	return nil
}

// Nameless implements relational.RowFinder.
func (s *Store) Nameless(ctx context.Context, of *outbox.Table) (n int, err error) {
	t := s.tables.ByName[of.String()]
	nameless := t.Nameless()
	if nameless == "" {
		return 0, nil
	}
	b := s.Batch()
	b.Each(func(r session.Row) error {
		n = int(r.Num(0))
		return nil
	}, "SELECT COUNT(*) FROM (SELECT 1 FROM "+t.SQL+" t WHERE ? AND (?) LIMIT ?) n", quote.Raw(t.Pending()), quote.Raw(nameless), store.NamelessMost)
	err = s.Send(ctx, b)
	return n, err
}

// A pendingRow is what a window shows of a row.
type pendingRow struct {
	id, place string
	pending   bool
}

// Window implements relational.RowFinder.
func (s *Store) Window(ctx context.Context, at *store.Cursor) (list []store.PendingRow, end bool, err error) {
	t := s.tables.ByName[at.Table]
	rows, err := s.readWindow(ctx, t, at)
	if err != nil {
		return nil, false, err
	}
	parked, err := s.parkedStates(ctx, t, rows)
	if err != nil {
		return nil, false, err
	}
	for _, r := range rows {
		reset, isParked := parked[r.id]
		list = append(list, store.PendingRow{ID: r.id, After: []byte(r.id), Place: r.place, Missing: r.pending && !isParked, Reset: r.pending && reset})
	}
	return list, len(rows) < pendingWindow, nil
}

// readWindow reads the next rows by id. If an index leads to the pending ones, the window is made of those.
func (s *Store) readWindow(ctx context.Context, t *usertable.Table, at *store.Cursor) ([]pendingRow, error) {
	by, place := t.ID.Order()
	where, pending := "TRUE", t.Pending()
	force := " FORCE INDEX (" + t.Index + ")"
	if t.PendingIndex != "" || pending == "TRUE" {
		where, pending = pending, "TRUE"
		if t.PendingIndex != "" {
			force = ""
		}
	}
	if nameless := t.Nameless(); nameless != "" {
		where += " AND NOT (" + nameless + ")"
	}
	after, err := t.After(at)
	if err != nil {
		return nil, err
	}
	where += after
	var rows []pendingRow
	b := s.Batch()
	b.Each(func(r session.Row) error {
		id, err := t.ID.Read(r, 0)
		rows = append(rows, pendingRow{id, r.Text(2), r.Bool(1)})
		return err
	}, "SELECT "+t.ID.Selected("t.")+", ?, "+place+" FROM "+t.SQL+" t"+force+" WHERE ? ORDER BY "+by+" LIMIT ?", quote.Raw(pending), quote.Raw(where), pendingWindow)
	err = s.Send(ctx, b)
	return rows, err
}

// parkedStates tells which rows have parked deliveries and were dealt with, and (true) which of them were reset: a dead delivery whose row was dealt
// with, and that is all copied.
func (s *Store) parkedStates(ctx context.Context, t *usertable.Table, rows []pendingRow) (map[string]bool, error) {
	resettable := t.Columns.Status != "" && !t.DeadLooksPending()
	parked := make(map[string]bool)
	b := s.Batch()
	for start := 0; start < len(rows); start += keyChunk {
		ids := make(quote.List, 0, keyChunk)
		for _, r := range rows[start:min(start+keyChunk, len(rows))] {
			if r.pending {
				ids = append(ids, r.id)
			}
		}
		if len(ids) == 0 {
			continue
		}
		b.Each(func(r session.Row) error {
			id := r.Text(0)
			parked[id] = parked[id] || resettable && r.Bool(1)
			return nil
		}, `SELECT p.message_id, p.state = 'dead' AND p.row_settled AND NOT p.unfinished AND NOT p.in_table
			FROM {parked} p FORCE INDEX (PRIMARY) WHERE `+whereMessages+` AND (p.row_settled OR p.unfinished)`, s.Config.Pipeline, ids, quote.Bin(t.String()))
	}
	return parked, s.Send(ctx, b)
}

// AskOnce implements relational.RowFinder.
func (s *Store) AskOnce(ctx context.Context, asked *checkpoint.Request, selection string) error {
	open := false
	b := s.Batch()
	b.Each(func(session.Row) error {
		open = true
		return nil
	}, `SELECT 1 FROM {request} WHERE pipeline = ? AND done_at IS NULL AND verb = 'replay' AND reason = ?
		AND JSON_UNQUOTE(JSON_EXTRACT(selection, '$.refresh')) = 'true' LIMIT 1`, s.Config.Pipeline, asked.Reason)
	if err := s.Send(ctx, b); err != nil || open {
		return err
	}
	return s.InTx(ctx, func(b *session.Batch) {
		b.Exec("INSERT INTO {request} (pipeline, verb, selection, reason, `by`) VALUES (?, 'replay', ?, ?, ?)", s.Config.Pipeline,
			selection, asked.Reason, asked.By)
	})
}

// RowsUpTo implements relational.RowFinder.
func (s *Store) RowsUpTo(ctx context.Context, of *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	t := s.tables.ByName[of.String()]
	return t.ReadUpTo(ctx, s.Session, ids, t.Pending(), bytes)
}

// Passing implements relational.RowFinder.
func (s *Store) Passing(err error) bool { return server.Passing(err) }

// queueClock asks for the server's time.
func queueClock(b *session.Batch, now *time.Time) {
	b.Each(func(r session.Row) (err error) {
		*now, err = r.Time(0)
		return err
	}, "SELECT UTC_TIMESTAMP(6)")
}

// Clock implements store.PendingReader.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	b := s.Batch()
	queueClock(b, &now)
	if err := s.Send(ctx, b); err != nil {
		return now, server.Fault("read the clock", err)
	}
	return now, nil
}

// EachParked implements relational.RowFinder.
func (s *Store) EachParked(ctx context.Context, ms []*outbox.Message, on func(i int, sink string)) error {
	type key struct{ Table, id string }
	index, ids := make(map[key]int), make(map[string]quote.List)
	for i, m := range ms {
		index[key{m.Table, m.ID}] = i
		ids[m.Table] = append(ids[m.Table], m.ID)
	}
	b := s.Batch()
	for table, all := range ids {
		for start := 0; start < len(all); start += keyChunk {
			b.Each(func(r session.Row) error {
				on(index[key{table, r.Text(0)}], r.Text(1))
				return nil
			}, "SELECT p.message_id, p.sink FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereMessages+" ORDER BY p.sink", s.Config.Pipeline,
				all[start:min(start+keyChunk, len(all))], quote.Bin(table))
		}
	}
	return s.Send(ctx, b)
}
