package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many rows one statement looks at, so that the session is never busy for long.
const pendingWindow = 10000

// Pending implements checkpoint.Store.
//
// The barrier is where the log ends after the list was read: a row that can be seen was in the log before. It is written
// past, so that the server sends the log up to it even when nothing else happens.
func (s *stateStore) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	out, err := store.ListPending(ctx, s, s.tables.configured(), cursor, limit, s.cfg.logger())
	if err != nil {
		return nil, err
	}
	return out, s.barrier(ctx, out)
}

// barrier asks where the log ends, and writes past it.
func (s *stateStore) barrier(ctx context.Context, out *checkpoint.PendingRows) error {
	if s.cfg.Poll {
		return s.pollBarrier(ctx, out)
	}
	end, err := readLogEnd(ctx, s.sess)
	if err != nil {
		return storeFault("read the log's end", err)
	}
	out.Barrier, out.Commit = end.Position.String(), end.Position.Ordinal()
	err = s.inTx(ctx, func(b *batch) {
		b.exec(`UPDATE {checkpoint} SET updated_at = UTC_TIMESTAMP(6) WHERE pipeline = ?`, s.cfg.Pipeline)
	})
	if err != nil {
		return storeFault("write past the log's end", err)
	}
	return nil
}

// warnNameless counts pending rows without an id.
func (s *stateStore) warnNameless(ctx context.Context, t *table) error {
	nameless := t.nameless()
	if nameless == "" {
		return nil
	}
	n := 0
	b := s.batch()
	b.each(func(r row) error {
		n = int(r.num(0))
		return nil
	}, "SELECT COUNT(*) FROM (SELECT 1 FROM "+t.sql+" t WHERE ? AND (?) LIMIT ?) n", raw(t.pending()), raw(nameless), store.NamelessMost)
	if err := s.send(ctx, b); err != nil {
		return storeFault("look for rows without an id in table "+t.String(), err)
	}
	store.WarnNameless(s.cfg.logger(), &t.Table, n)
	return nil
}

// A pendingRow is what a window shows of a row.
type pendingRow struct {
	id, place string
	pending   bool
}

// PendingWindow implements store.PendingReader.
func (s *stateStore) PendingWindow(ctx context.Context, at *store.Cursor) (rows []store.PendingRow, end bool, err error) {
	rows, end, err = s.pendingWindow(ctx, s.tables.byName[at.Table], at)
	return rows, end, store.LockedTable(err, passingTrouble)
}

func (s *stateStore) pendingWindow(ctx context.Context, t *table, at *store.Cursor) (list []store.PendingRow, end bool, err error) {
	if len(at.After) == 0 {
		if err := s.warnNameless(ctx, t); err != nil {
			return nil, false, err
		}
	}
	rows, err := s.readWindow(ctx, t, at)
	if err != nil {
		return nil, false, storeFault("list pending rows of table "+at.Table, err)
	}
	parked, err := s.parkedStates(ctx, t, rows)
	if err != nil {
		return nil, false, storeFault("list pending rows of table "+at.Table, err)
	}
	for _, r := range rows {
		reset, isParked := parked[r.id]
		list = append(list, store.PendingRow{ID: r.id, After: []byte(r.id), Place: r.place, Missing: r.pending && !isParked, Reset: r.pending && reset})
	}
	return list, len(rows) < pendingWindow, nil
}

// readWindow reads the next rows by id. Where an index leads to the pending ones, the window is made of those.
func (s *stateStore) readWindow(ctx context.Context, t *table, at *store.Cursor) ([]pendingRow, error) {
	by, place := t.id.order()
	where, pending := "TRUE", t.pending()
	force := " FORCE INDEX (" + t.index + ")"
	if t.pendingIndex != "" || pending == "TRUE" {
		where, pending = pending, "TRUE"
		if t.pendingIndex != "" {
			force = ""
		}
	}
	if nameless := t.nameless(); nameless != "" {
		where += " AND NOT (" + nameless + ")"
	}
	after, err := t.after(at)
	if err != nil {
		return nil, err
	}
	where += after
	var rows []pendingRow
	b := s.batch()
	b.each(func(r row) error {
		id, err := t.id.read(r, 0)
		rows = append(rows, pendingRow{id, r.text(2), r.bool(1)})
		return err
	}, "SELECT "+t.id.selected("t.")+", ?, "+place+" FROM "+t.sql+" t"+force+" WHERE ? ORDER BY "+by+" LIMIT ?", raw(pending), raw(where), pendingWindow)
	return rows, s.send(ctx, b)
}

// parkedStates tells which rows have parked deliveries and were dealt with, and (true) which of them were reset: a dead delivery whose row was dealt
// with, and that is all copied.
func (s *stateStore) parkedStates(ctx context.Context, t *table, rows []pendingRow) (map[string]bool, error) {
	resettable := t.Columns.Status != "" && t.Words.Dead != t.Words.Pending
	parked := make(map[string]bool)
	b := s.batch()
	for start := 0; start < len(rows); start += keyChunk {
		ids := make(list, 0, keyChunk)
		for _, r := range rows[start:min(start+keyChunk, len(rows))] {
			if r.pending {
				ids = append(ids, r.id)
			}
		}
		if len(ids) == 0 {
			continue
		}
		b.each(func(r row) error {
			id := r.text(0)
			parked[id] = parked[id] || resettable && r.bool(1)
			return nil
		}, `SELECT p.message_id, p.state = 'dead' AND p.row_settled AND NOT p.unfinished AND NOT p.in_table
			FROM {parked} p FORCE INDEX (PRIMARY) WHERE `+whereMessages+` AND (p.row_settled OR p.unfinished)`, s.cfg.Pipeline, ids, bin(t.String()))
	}
	return parked, s.send(ctx, b)
}

// AskForReset implements store.PendingReader.
func (s *stateStore) AskForReset(ctx context.Context, table string, ids []string) error {
	asked := store.ResetRequest("rows", table, ids)
	selection, err := json.Marshal(&asked.Selection)
	if err != nil {
		return fmt.Errorf("write selection: %w", err)
	}
	open := false
	b := s.batch()
	b.each(func(row) error {
		open = true
		return nil
	}, `SELECT 1 FROM {request} WHERE pipeline = ? AND done_at IS NULL AND verb = 'replay' AND reason = ?
		AND JSON_UNQUOTE(JSON_EXTRACT(selection, '$.refresh')) = 'true' LIMIT 1`, s.cfg.Pipeline, asked.Reason)
	if err := s.send(ctx, b); err != nil {
		return storeFault("look for open requests", err)
	}
	if open {
		return nil
	}
	if err := s.inTx(ctx, func(b *batch) {
		b.exec("INSERT INTO {request} (pipeline, verb, selection, reason, `by`) VALUES (?, 'replay', ?, ?, ?)", s.cfg.Pipeline,
			string(selection), asked.Reason, asked.By)
	}); err != nil {
		return storeFault("ask for the replay of rows that were reset", err)
	}
	return nil
}

// Fetch implements checkpoint.Store.
func (s *stateStore) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ms, parkedAt, err := store.Fetch(ctx, s, s.tables.configured(), rows, at, bytes)
	if s.cfg.Poll {
		store.WarnFoundLate(s.cfg.logger(), ms)
	}
	return ms, parkedAt, err
}

// PendingRows implements store.PendingReader.
func (s *stateStore) PendingRows(ctx context.Context, of *outbox.Table, ids []string, bytes int) ([]*outbox.Message, error) {
	t := s.tables.byName[of.String()]
	ms, err := t.readUpTo(ctx, s.relaySession, ids, t.pending(), bytes)
	return ms, store.LockedTable(err, passingTrouble)
}

// queueClock asks for the server's time.
func queueClock(b *batch, now *time.Time) {
	b.each(func(r row) (err error) {
		*now, err = r.time(0)
		return err
	}, "SELECT UTC_TIMESTAMP(6)")
}

// Clock implements store.PendingReader.
func (s *stateStore) Clock(ctx context.Context) (now time.Time, err error) {
	b := s.batch()
	queueClock(b, &now)
	if err := s.send(ctx, b); err != nil {
		return now, storeFault("read the clock", err)
	}
	return now, nil
}

// ParkedAt implements store.PendingReader.
func (s *stateStore) ParkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
	type key struct{ table, id string }
	index, ids := make(map[key]int), make(map[string]list)
	for i, m := range ms {
		index[key{m.Table, m.ID}] = i
		ids[m.Table] = append(ids[m.Table], m.ID)
	}
	var at [][]string
	b := s.batch()
	for table, all := range ids {
		for start := 0; start < len(all); start += keyChunk {
			b.each(func(r row) error {
				if at == nil {
					at = make([][]string, len(ms))
				}
				i := index[key{table, r.text(0)}]
				at[i] = append(at[i], r.text(1))
				return nil
			}, "SELECT p.message_id, p.sink FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereMessages+" ORDER BY p.sink", s.cfg.Pipeline,
				all[start:min(start+keyChunk, len(all))], bin(table))
		}
	}
	if err := s.send(ctx, b); err != nil {
		return nil, storeFault("look for parked deliveries", err)
	}
	return at, nil
}
