package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// pendingWindow is how many rows one statement looks at, so that the session is never busy for long.
const pendingWindow = 10000

// pendingCursor is where Pending goes on: in which table, and after which id.
type pendingCursor struct {
	Table string `json:"table"`
	After []byte `json:"after,omitempty"`
	Place string `json:"place,omitempty"`
}

// Pending lists pending rows by id, in windows. Rows with parked deliveries are the poller's: they are left out. But where a
// status says pending although a delivery of the row is dead, an operator has reset it with plain SQL, which is a
// replay: Pending puts a request for it into tailbox_request, and it is carried out as all are.
//
// The barrier is where the log ends after the list was read: a row that can be seen was in the log before. It is written
// past, so that the server sends the log up to it even when nothing else happens.
func (s *stateStore) Pending(ctx context.Context, cursor string, limit int) (*checkpoint.PendingRows, error) {
	at, err := s.pendingStart(cursor)
	if err != nil {
		return nil, err
	}
	out := &checkpoint.PendingRows{}
	if at, err = store.ListPending(ctx, at, limit, out, s.pendingUnlocked); err != nil {
		return nil, err
	}
	if at != nil {
		text, err := json.Marshal(at)
		if err != nil {
			return nil, fmt.Errorf("write cursor: %w", err)
		}
		out.Cursor = string(text)
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
		return s.fault("read the log's end", err)
	}
	out.Barrier, out.Commit = end.Position.String(), end.Position.Ordinal()
	err = s.inTx(ctx, func(b *batch) {
		b.exec(`UPDATE {checkpoint} SET updated_at = UTC_TIMESTAMP(6) WHERE pipeline = ?`, s.cfg.Pipeline)
	})
	if err != nil {
		return s.fault("write past the log's end", err)
	}
	return nil
}

// pendingStart is where a cursor points to; nil where no table is left.
func (s *stateStore) pendingStart(cursor string) (*pendingCursor, error) {
	if cursor == "" {
		return s.nextPending(""), nil
	}
	at := &pendingCursor{}
	if err := json.Unmarshal([]byte(cursor), at); err != nil {
		return nil, fmt.Errorf("read cursor %q: %w", cursor, err)
	}
	if s.tables.byName[at.Table] == nil {
		return nil, fmt.Errorf("read cursor %q: there is no such table", cursor)
	}
	return at, nil
}

// nextPending is the beginning of the next table with rows that say whether they are pending; "" is before the first.
func (s *stateStore) nextPending(table string) *pendingCursor {
	found := table == ""
	for _, t := range s.tables.order {
		if found && t.OnDelivered != outbox.Keep {
			return &pendingCursor{Table: t.String()}
		}
		found = found || t.String() == table
	}
	return nil
}

// namelessMost bounds how many rows without an id are counted.
const namelessMost = 1000

// warnNameless tells of pending rows without an id. Such a row cannot be told from one that is parked under an id that was
// made for it, so it is left to the operator: once it has an id, it is found as any other.
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
	}, "SELECT COUNT(*) FROM (SELECT 1 FROM "+t.sql+" t WHERE ? AND (?) LIMIT ?) n", raw(t.pending()), raw(nameless), namelessMost)
	if err := s.send(ctx, b); err != nil {
		return s.fault("look for rows without an id in table "+t.String(), err)
	}
	if n > 0 {
		s.cfg.logger().Warn("pending rows without an id are not compared with the log: give them an id, and they are delivered if they are not "+
			"parked, or delete them", "table", t.String(), "column", t.Columns.ID, "rows", n)
	}
	return nil
}

// A pendingRow is what a window shows of a row.
type pendingRow struct {
	id, place string
	pending   bool
}

// pendingUnlocked is pendingWindow, which passes over a table that others have locked as a whole, by ALTER TABLE or LOCK TABLES: the next
// comparison will do.
func (s *stateStore) pendingUnlocked(ctx context.Context, at *pendingCursor, limit int, out *checkpoint.PendingRows) (*pendingCursor, error) {
	next, err := s.pendingWindow(ctx, at, limit, out)
	if passingTrouble(err) {
		s.cfg.logger().Warn("table is locked: it is compared with the log the next time", "table", at.Table, "error", err)
		return s.nextPending(at.Table), nil
	}
	return next, err
}

// pendingWindow looks at one window, and returns where the next one begins.
func (s *stateStore) pendingWindow(ctx context.Context, at *pendingCursor, limit int, out *checkpoint.PendingRows) (*pendingCursor, error) {
	t := s.tables.byName[at.Table]
	if len(at.After) == 0 {
		if err := s.warnNameless(ctx, t); err != nil {
			return nil, err
		}
	}
	rows, err := s.readWindow(ctx, t, at)
	if err != nil {
		return nil, s.fault("list pending rows of table "+at.Table, err)
	}
	parked, err := s.parkedStates(ctx, t, rows)
	if err != nil {
		return nil, s.fault("list pending rows of table "+at.Table, err)
	}
	next := &pendingCursor{Table: at.Table, After: at.After, Place: at.Place}
	var reset []string
	full := false
	for _, r := range rows {
		state, isParked := parked[r.id]
		missing := r.pending && !isParked
		if full = missing && limit == 0; full {
			break
		}
		next.After, next.Place = []byte(r.id), r.place
		if missing {
			out.Rows = append(out.Rows, checkpoint.RowRef{Table: at.Table, ID: r.id})
			limit--
		}
		if r.pending && state {
			reset = append(reset, r.id)
		}
	}
	if len(reset) > 0 {
		if err := s.askForReset(ctx, at.Table, reset); err != nil {
			return nil, err
		}
	}
	if !full && len(rows) < pendingWindow {
		return s.nextPending(at.Table), nil
	}
	return next, nil
}

// readWindow reads the next rows by id. Where an index leads to the pending ones, the window is made of those.
func (s *stateStore) readWindow(ctx context.Context, t *table, at *pendingCursor) ([]pendingRow, error) {
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
	switch {
	case at.Place != "":
		n, err := strconv.ParseUint(at.Place, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: read cursor: %w", source.ErrStop, err)
		}
		where += " AND " + by + " > " + strconv.FormatUint(n, 10)
	case len(at.After) > 0:
		after, err := t.id.literal(nil, string(at.After))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", source.ErrStop, err)
		}
		where += " AND " + by + " > " + string(after)
	}
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

// askForReset asks for the replay of dead deliveries whose rows say that they are pending again, unless such a request is
// open already.
func (s *stateStore) askForReset(ctx context.Context, table string, ids []string) error {
	selection, err := json.Marshal(store.ResetSelection(table, ids))
	if err != nil {
		return fmt.Errorf("write selection: %w", err)
	}
	reason := "rows of " + table + " were set to pending again"
	open := false
	b := s.batch()
	b.each(func(row) error {
		open = true
		return nil
	}, `SELECT 1 FROM {request} WHERE pipeline = ? AND done_at IS NULL AND verb = 'replay' AND reason = ?
		AND JSON_UNQUOTE(JSON_EXTRACT(selection, '$.refresh')) = 'true' LIMIT 1`, s.cfg.Pipeline, reason)
	if err := s.send(ctx, b); err != nil {
		return s.fault("look for open requests", err)
	}
	if open {
		return nil
	}
	if err := s.inTx(ctx, func(b *batch) {
		b.exec("INSERT INTO {request} (pipeline, verb, selection, reason, `by`) VALUES (?, 'replay', ?, ?, 'tailbox')", s.cfg.Pipeline,
			string(selection), reason)
	}); err != nil {
		return s.fault("ask for the replay of rows that were reset", err)
	}
	return nil
}

// Fetch reads rows that are still pending, as messages at and after a position.
func (s *stateStore) Fetch(ctx context.Context, rows []checkpoint.RowRef, at outbox.Position, bytes int) ([]*outbox.Message, [][]string, error) {
	ids := make(map[string][]string)
	for _, r := range rows {
		ids[r.Table] = append(ids[r.Table], r.ID)
	}
	now, err := s.clock(ctx)
	if err != nil {
		return nil, nil, err
	}
	var ms []*outbox.Message
	for _, t := range s.tables.order {
		if len(ids[t.String()]) == 0 || t.OnDelivered == outbox.Keep || bytes <= 0 {
			continue
		}
		found, err := s.readUpTo(ctx, t, ids[t.String()], t.pending(), bytes)
		if passingTrouble(err) {
			continue // they are found again
		}
		if err != nil {
			return nil, nil, err
		}
		ms = append(ms, found...)
		for _, m := range found {
			bytes -= m.Size()
		}
	}
	if len(ms) == 0 {
		return nil, nil, nil
	}
	if err := store.PlaceFound(ms, at, now); err != nil {
		return nil, nil, err
	}
	if s.cfg.Poll {
		s.cfg.logger().Warn("rows came below the place up to which numbers were read, or were set to pending again: they are delivered now, late; "+
			"let each number be drawn in the transaction that commits it", "table", ms[0].Table, "rows", len(ms))
	}
	parkedAt, err := s.parkedAt(ctx, ms)
	return ms, parkedAt, err
}

// queueClock asks for the server's time.
func queueClock(b *batch, now *time.Time) {
	b.each(func(r row) (err error) {
		*now, err = r.time(0)
		return err
	}, "SELECT UTC_TIMESTAMP(6)")
}

func (s *stateStore) clock(ctx context.Context) (now time.Time, err error) {
	b := s.batch()
	queueClock(b, &now)
	if err := s.send(ctx, b); err != nil {
		return now, s.fault("read the clock", err)
	}
	return now, nil
}

// parkedAt names for each message the sinks that have a delivery of it parked, dropped ones too. Nil where nothing is.
func (s *stateStore) parkedAt(ctx context.Context, ms []*outbox.Message) ([][]string, error) {
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
		return nil, s.fault("look for parked deliveries", err)
	}
	return at, nil
}
