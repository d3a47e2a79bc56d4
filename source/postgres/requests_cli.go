package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// What operators see and ask for, beside the relay or without it. Each function connects by itself, and takes no lock but
// for Execute.

// openReader opens a store that only looks, or writes requests: it has no lock.
func openReader(ctx context.Context, cfg Config) (*stateStore, error) {
	s, err := openAnyReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.current(ctx); err != nil {
		return nil, errors.Join(err, closeConn(ctx, s.conn))
	}
	return s, nil
}

// openAnyReader connects, and finds the relay's tables, of whatever version.
func openAnyReader(ctx context.Context, cfg Config) (*stateStore, error) {
	conn, err := cfg.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &stateStore{cfg: cfg, conn: conn, encoding: encodingOf(conn.PgConn()), texts: make(map[string]string), held: make(store.HeldLanes), sinks: make(map[string]bool)}
	if err := s.findTables(ctx); err != nil {
		return nil, errors.Join(err, closeConn(ctx, conn))
	}
	return s, nil
}

// Ask writes a request into tailbox_request, and returns its id. One that could never be carried out is refused.
func Ask(ctx context.Context, cfg Config, r *checkpoint.Request) (id int64, err error) {
	if err := store.Validate(r); err != nil {
		return 0, fmt.Errorf("ask for %s: %w", r.Verb, err)
	}
	s, err := openReader(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	// Who asks, and when, is the database's to say.
	insert := func(reason string) error {
		return s.conn.QueryRow(ctx, s.q(`INSERT INTO {request} (pipeline, verb, selection, reason) VALUES ($1, $2, $3, $4) RETURNING id`),
			cfg.Pipeline, string(r.Verb), string(selection), reason).Scan(&id)
	}
	err = insert(r.Reason)
	if lacksCharacter(err) { // what is selected must be meant as it stands; what is only said need not
		err = insert(s.encoding.fit(r.Reason))
	}
	if err != nil {
		return 0, s.fault("write request", err)
	}
	return id, nil
}

// Result reads what a request did so far, and whether it is done.
func Result(ctx context.Context, cfg Config, id int64) (result *RequestResult, done bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	return s.Progress(ctx, id)
}

// Execute carries out the open requests up to an id where no relay runs; with one, it fails with checkpoint.ErrLocked.
// Requests to accept a gap are left for the next start.
func Execute(ctx context.Context, cfg Config, upTo int64) (err error) {
	s, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	return store.Execute(ctx, s, upTo)
}

// Wait waits until a request is done: by the relay that runs or, where none does, by Execute. A request to accept a gap
// is left to the next start where no relay runs: the result is nil then.
func Wait(ctx context.Context, cfg Config, id int64) (*RequestResult, error) {
	return store.Wait(ctx, id, func(ctx context.Context) (*RequestResult, bool, error) { return Result(ctx, cfg, id) },
		func(ctx context.Context) error { return Execute(ctx, cfg, id) })
}

// A Listed is a parked delivery as operators see it.
type Listed = store.Listed

// A WaitingLane is a lane that does not flow, and why.
type WaitingLane = store.WaitingLane

// ListParked lists what a selection selects, in the order in which a request would go through it: by sink, group and position. At
// most limit deliveries; more tells whether some are left out. Limit 0 means the selection's own limit, or all. Whole messages are
// listed up to 64 MiB of payloads; else they come without their payloads.
func ListParked(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int, whole bool) (list []Listed, more bool, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	if err := s.remember(ctx); err != nil {
		return nil, false, err
	}
	return store.ListParked(ctx, s, sel, limit, func(ctx context.Context, rows []store.SelectedRow) ([]Listed, error) {
		return s.listed(ctx, rows, whole)
	})
}

// listed reads deliveries, in the order of rows: whole, or without payloads.
func (s *stateStore) listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]Listed, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	columns := parkedColumns
	if !whole {
		columns = strings.Replace(columns, "p.payload", "NULL::bytea", 1)
	}
	sinks, tables, ids := keys(rows)
	found, err := s.conn.Query(ctx, s.q(`SELECT `+columns+`, p.parked_at, p.changed_at, p.next_attempt_at
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS v (sink, source_table, message_id, n)
		CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table
			AND q.sink = v.sink OFFSET 0) p ORDER BY v.n`), s.cfg.Pipeline, sinks, tables, ids)
	if err != nil {
		return nil, s.fault("list parked deliveries", err)
	}
	defer found.Close()
	var list []Listed
	for found.Next() {
		var r parkedRow
		var l Listed
		var next *time.Time
		if err := found.Scan(append(r.targets(), &l.ParkedAt, &l.ChangedAt, &next)...); err != nil {
			return nil, s.fault("list parked deliveries", err)
		}
		if l.Parked, err = r.parked(); err != nil {
			return nil, err
		}
		l.NextAttemptAt = orZero(next)
		list = append(list, l)
	}
	if err := found.Err(); err != nil {
		return nil, s.fault("list parked deliveries", err)
	}
	return list, nil
}

// lanesQuery lists lanes with blocking deliveries, and the first of each.
const lanesQuery = `
WITH RECURSIVE lane AS (
	(SELECT sink, message_group FROM {parked} WHERE pipeline = $1 AND blocks AND ($2::text IS NULL OR sink = $2)
		AND ($3::text[] IS NULL OR message_group = ANY ($3)) ORDER BY sink, message_group LIMIT 1)
	UNION ALL
	SELECT n.sink, n.message_group FROM lane l CROSS JOIN LATERAL (
		SELECT p.sink, p.message_group FROM {parked} p
		WHERE p.pipeline = $1 AND p.blocks AND (p.sink, p.message_group) > (l.sink, l.message_group) AND ($2::text IS NULL OR p.sink = $2)
			AND ($3::text[] IS NULL OR p.message_group = ANY ($3))
		ORDER BY p.sink, p.message_group LIMIT 1) n
), listed AS MATERIALIZED (SELECT * FROM lane LIMIT $4)
SELECT l.sink, l.message_group, (SELECT count(*) FROM {parked} c WHERE c.pipeline = $1 AND c.sink = l.sink AND c.message_group = l.message_group AND c.blocks),
	h.position, h.message_id, h.source_table
FROM listed l CROSS JOIN LATERAL (SELECT p.position, p.message_id, p.source_table FROM {parked} p
	WHERE p.pipeline = $1 AND p.sink = l.sink AND p.message_group = l.message_group AND p.blocks ORDER BY p.position LIMIT 1) h
ORDER BY l.sink, l.message_group`

// ListLanes lists the lanes that wait, with the reason, of the sink and groups of a selection; the rest of it does not matter.
// Limit bounds the lanes; 0 means all. Held lanes with nothing parked come first.
func ListLanes(ctx context.Context, cfg Config, sel checkpoint.Selection, limit int) (list []WaitingLane, err error) {
	s, err := openReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	if err := s.remember(ctx); err != nil {
		return nil, err
	}
	var bound any
	if limit > 0 {
		bound = limit
	}
	rows, err := s.conn.Query(ctx, s.q(lanesQuery), cfg.Pipeline, atSink(&sel), sel.Groups, bound)
	if err != nil {
		return nil, s.fault("list lanes", err)
	}
	var firsts []store.SelectedRow
	var r store.SelectedRow
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&r.Sink, &r.Group, &n, &r.Position, &r.ID, &r.Table}, func() error {
		firsts = append(firsts, r)
		list = append(list, WaitingLane{Sink: r.Sink, Group: r.Group, Deliveries: n, Held: s.held.Has(r.Lane())})
		return nil
	}); err != nil {
		return nil, s.fault("list lanes", err)
	}
	heads, err := s.listed(ctx, firsts, false)
	if err != nil {
		return nil, err
	}
	return store.WithFirst(list, heads, s.held, &sel)
}
