package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Operator is what operators see of a pipeline, and ask for.
func Operator(cfg session.Config) operate.Operator {
	return operate.Operator{
		Read: func(ctx context.Context) (operate.Reader, error) {
			s, err := OpenReader(ctx, cfg)
			return reader{s}, err
		},
		Open: func(ctx context.Context) (checkpoint.Store, error) { return Open(ctx, cfg) },
	}
}

// A reader implements operate.Reader: a store that has no lock.
type reader struct{ *Store }

// OpenReader opens a store that only looks, or writes requests: it has no lock. A client that may only ask cannot read the tables' version. The relay
// that carries out its request has checked it.
func OpenReader(ctx context.Context, cfg session.Config) (*Store, error) {
	s, err := OpenAnyReader(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.current(ctx); err != nil && pgerr.State(err) != "42501" {
		return nil, errors.Join(err, session.Close(ctx, s.Conn))
	}
	return s, nil
}

// OpenAnyReader connects, and finds the relay's tables, of whatever version.
func OpenAnyReader(ctx context.Context, cfg session.Config) (*Store, error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	s := On(cfg, conn)
	if err := s.FindTables(ctx); err != nil {
		return nil, errors.Join(err, session.Close(ctx, conn))
	}
	return s, nil
}

// Begin implements operate.Reader.
func (s reader) Begin(ctx context.Context) (context.Context, error) {
	s.Forget()
	return ctx, s.Conn.Ping(ctx)
}

// Leave implements operate.Reader.
func (s reader) Leave(ctx context.Context) error { return session.Close(ctx, s.Conn) }

// Ask implements operate.Reader.
func (s reader) Ask(ctx context.Context, r *checkpoint.Request, by string) (id int64, err error) {
	selection, err := json.Marshal(&r.Selection)
	if err != nil {
		return 0, fmt.Errorf("write selection: %w", err)
	}
	columns, values, args := "", "", []any{s.Cfg.Pipeline, string(r.Verb), string(selection), ""}
	if by != "" { // clients may not write the column
		columns, values, args = `, "by"`, ", $5", append(args, s.encoding.Fit(by))
	}
	insert := func(reason string) error {
		args[3] = reason
		return s.Conn.QueryRow(ctx, s.SQL(`INSERT INTO {request} (pipeline, verb, selection, reason`+columns+`) VALUES ($1, $2, $3, $4`+values+`) RETURNING id`),
			args...).Scan(&id)
	}
	err = insert(r.Reason)
	if pgerr.LacksCharacter(err) { // the selection must not be changed; the reason is only for people, and may be
		err = insert(s.encoding.Fit(r.Reason))
	}
	if err != nil {
		return 0, s.Fault("write request", err)
	}
	return id, nil
}

// Asked implements operate.Reader.
func (s reader) Asked(ctx context.Context, before int64, limit int, whole bool) (list []store.Asked, err error) {
	rows, err := s.Conn.Query(ctx, s.SQL(`SELECT id, verb, CASE WHEN $4 OR pg_column_size(selection) <= $5 THEN selection::text ELSE $6 END, reason, "by", requested_at, done_at, result::text FROM {request}
		WHERE pipeline = $1 AND id < $2 ORDER BY id DESC LIMIT $3`), s.Cfg.Pipeline, before, limit, whole, store.MostSelection, store.OmittedSelection)
	if err != nil {
		return nil, s.Fault("list requests", err)
	}
	var a store.Asked
	var selection string
	var result *string
	if _, err := pgx.ForEachRow(rows, []any{&a.ID, &a.Verb, &selection, &a.Reason, &a.By, &a.RequestedAt, (*orZeroTime)(&a.DoneAt), &result}, func() error {
		one := a
		one.ReadAsked(selection, result)
		list = append(list, one)
		return nil
	}); err != nil {
		return nil, s.Fault("list requests", err)
	}
	return list, nil
}

// Listed implements operate.Reader.
func (s reader) Listed(ctx context.Context, rows []store.SelectedRow, whole bool) ([]store.Listed, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	columns := ParkedColumns()
	if !whole {
		columns = bareColumns()
	}
	sinks, tables, ids := keyArrays(store.KeysOf(rows))
	found, err := s.Conn.Query(ctx, s.SQL(`SELECT `+columns+`
		FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS v (sink, source_table, message_id, n)
		CROSS JOIN LATERAL (SELECT * FROM {parked} q WHERE q.pipeline = $1 AND q.message_id = v.message_id AND q.source_table = v.source_table
			AND q.sink = v.sink OFFSET 0) p ORDER BY v.n`), s.Cfg.Pipeline, sinks, tables, ids)
	if err != nil {
		return nil, s.Fault("list parked deliveries", err)
	}
	defer found.Close()
	var list []store.Listed
	scanner := newParkedScanner()
	for found.Next() {
		if err := scanner.scan(found); err != nil {
			return nil, s.Fault("list parked deliveries", err)
		}
		l, err := scanner.row.Listed(scanner.now)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	if err := found.Err(); err != nil {
		return nil, s.Fault("list parked deliveries", err)
	}
	return list, nil
}

// lanesQuery lists lanes with blocking deliveries behind a place, and the first of each.
const lanesQuery = `
WITH RECURSIVE lane AS (
	(SELECT sink, message_group FROM {parked} WHERE pipeline = $1 AND blocks AND ($2::text IS NULL OR sink = $2)
		AND ($3::text[] IS NULL OR message_group = ANY ($3)) AND (sink, message_group) > ($5, $6) ORDER BY sink, message_group LIMIT 1)
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

// WaitingLanes implements operate.Reader.
func (s reader) WaitingLanes(ctx context.Context, sel *checkpoint.Selection, after checkpoint.Lane, limit int) (lanes []operate.WaitingLane, firsts []store.SelectedRow, next *checkpoint.Lane, err error) {
	var bound any
	if limit > 0 {
		bound = limit
	}
	rows, err := s.Conn.Query(ctx, s.SQL(lanesQuery), s.Cfg.Pipeline, atSink(sel), sel.Groups, bound, after.Sink, after.Group)
	if err != nil {
		return nil, nil, nil, s.Fault("list lanes", err)
	}
	var r store.SelectedRow
	var n int
	var names []checkpoint.Lane
	if _, err := pgx.ForEachRow(rows, []any{&r.Sink, &r.Group, &n, &r.Position, &r.ID, &r.Table}, func() error {
		firsts, names = append(firsts, r), append(names, r.Lane())
		lanes = append(lanes, operate.WaitingLane{Sink: r.Sink, Group: r.Group, Deliveries: n})
		return nil
	}); err != nil {
		return nil, nil, nil, s.Fault("list lanes", err)
	}
	return lanes, firsts, operate.NextLane(names, limit), nil
}
