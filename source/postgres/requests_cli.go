package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

// Operator is what operators see of a pipeline, and ask for.
func (cfg Config) Operator() store.Operator {
	return store.Operator{
		Read: func(ctx context.Context) (store.Reader, context.Context, error) {
			s, err := openReader(ctx, cfg)
			return s, ctx, err
		},
		Open: func(ctx context.Context) (checkpoint.Store, error) { return cfg.Open(ctx) },
	}
}

// openReader opens a store that only looks, or writes requests: it has no lock. A client that may do no more than ask cannot read the
// version of the tables; the relay that carries out what it asks for has checked that.
func openReader(ctx context.Context, cfg Config) (*stateStore, error) {
	s, err := openAnyReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.current(ctx); err != nil && sqlState(err) != "42501" {
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
	s := &stateStore{cfg: cfg, conn: conn, encoding: encodingOf(conn.PgConn()), texts: make(map[string]string), Memory: store.NewMemory()}
	if err := s.findTables(ctx); err != nil {
		return nil, errors.Join(err, closeConn(ctx, conn))
	}
	return s, nil
}

// Leave implements store.Reader.
func (s *stateStore) Leave(ctx context.Context) error { return closeConn(ctx, s.conn) }

// Ask implements store.Reader.
func (s *stateStore) Ask(ctx context.Context, r *checkpoint.Request) (id int64, err error) {
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	insert := func(reason string) error {
		return s.conn.QueryRow(ctx, s.q(`INSERT INTO {request} (pipeline, verb, selection, reason) VALUES ($1, $2, $3, $4) RETURNING id`),
			s.cfg.Pipeline, string(r.Verb), string(selection), reason).Scan(&id)
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

// Listed implements store.Reader.
func (s *stateStore) Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	columns := parkedColumns()
	if !whole {
		columns = bareColumns()
	}
	sinks, tables, ids := keys(rows)
	found, err := s.conn.Query(ctx, s.q(`SELECT `+columns+`
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS v (sink, source_table, message_id, n)
		CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table
			AND q.sink = v.sink OFFSET 0) p ORDER BY v.n`), s.cfg.Pipeline, sinks, tables, ids)
	if err != nil {
		return nil, s.fault("list parked deliveries", err)
	}
	defer found.Close()
	var list []store.Listed
	scanner := newParkedScanner()
	for found.Next() {
		if err := scanner.scan(found); err != nil {
			return nil, s.fault("list parked deliveries", err)
		}
		l, err := scanner.row.Listed(scanner.now)
		if err != nil {
			return nil, err
		}
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

// WaitingLanes implements store.Reader.
func (s *stateStore) WaitingLanes(ctx context.Context, sel *checkpoint.Selection, limit int) (lanes []store.WaitingLane, firsts []store.SelectedRow, err error) {
	var bound any
	if limit > 0 {
		bound = limit
	}
	rows, err := s.conn.Query(ctx, s.q(lanesQuery), s.cfg.Pipeline, atSink(sel), sel.Groups, bound)
	if err != nil {
		return nil, nil, s.fault("list lanes", err)
	}
	var r store.SelectedRow
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&r.Sink, &r.Group, &n, &r.Position, &r.ID, &r.Table}, func() error {
		firsts = append(firsts, r)
		lanes = append(lanes, store.WaitingLane{Sink: r.Sink, Group: r.Group, Deliveries: n})
		return nil
	}); err != nil {
		return nil, nil, s.fault("list lanes", err)
	}
	return lanes, firsts, nil
}
