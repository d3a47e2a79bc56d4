package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// parkedColumns are what scanParked reads, of alias p.
const parkedColumns = `p.sink, p.source_table, p.message_group, p.position, p.message_id, p.state, p.blocks, p.attempts,
	extract(epoch FROM p.next_attempt_at - now())::float8, p.last_error, p.error_class, p.replays, p.sent_id, p.in_table, p.type,
	p.topic, p.key, p.payload, p.headers::text, p.fields::text, p.tenant, p.content_type, p.idempotency_key, p.correlation_id,
	p.priority, p.max_attempts, p.available_at, p.created_at, p.commit_time, p.fault_class, p.fault_reason,
	p.tries, p.failed_epoch, p.failed_call`

// parkedRow is a row of tailbox_parked as it is scanned.
type parkedRow struct {
	sink, table, group, position, id, state, typ, topic                                  string
	lastError, errorClass, sentID, headers, fields, tenant, contentType, idemKey, corrID *string
	faultClass, faultReason                                                              *string
	blocks, inTable                                                                      bool
	attempts, tries, replays                                                             int
	failed                                                                               checkpoint.Failure
	due                                                                                  *float64
	key, payload                                                                         []byte
	priority, maxAttempts                                                                int32
	available, created, committed                                                        *time.Time
}

func (r *parkedRow) targets() []any {
	return []any{&r.sink, &r.table, &r.group, &r.position, &r.id, &r.state, &r.blocks, &r.attempts, &r.due, &r.lastError,
		&r.errorClass, &r.replays, &r.sentID, &r.inTable, &r.typ, &r.topic, &r.key, &r.payload, &r.headers, &r.fields, &r.tenant,
		&r.contentType, &r.idemKey, &r.corrID, &r.priority, &r.maxAttempts, &r.available, &r.created, &r.committed,
		&r.faultClass, &r.faultReason, &r.tries, &r.failed.Epoch, &r.failed.Call}
}

// parked makes a delivery of the row.
func (r *parkedRow) parked() (checkpoint.Parked, error) {
	m := &outbox.Message{ID: r.id, Type: r.typ, Topic: r.topic, Group: r.group, Key: r.key, Payload: r.payload,
		Tenant: orEmpty(r.tenant), ContentType: orEmpty(r.contentType), IdempotencyKey: orEmpty(r.idemKey),
		CorrelationID: orEmpty(r.corrID), Priority: r.priority, MaxAttempts: r.maxAttempts, AvailableAt: orZero(r.available),
		CreatedAt: orZero(r.created), CommitTime: orZero(r.committed), Table: r.table}
	p := checkpoint.Parked{Sink: r.sink, Message: m, State: checkpoint.State(r.state), Blocks: r.blocks, Attempts: r.attempts, Tries: r.tries, Failed: r.failed,
		LastError: orEmpty(r.lastError), ErrorClass: orEmpty(r.errorClass), Replays: r.replays, InTable: r.inTable}
	if r.due != nil {
		p.Due, p.NextAttempt = true, time.Duration(*r.due*float64(time.Second))
	}
	if r.sentID != nil {
		m.ID, p.Original = *r.sentID, r.id
	}
	if r.faultClass != nil {
		m.Fault = &outbox.Fault{Class: *r.faultClass, Reason: orEmpty(r.faultReason)}
	}
	var err error
	if m.Position, err = outbox.ParsePosition(r.position); err == nil {
		m.Headers, err = store.ParseHeaders(r.headers)
	}
	if err == nil {
		err = store.ReadFields(m, r.fields)
	}
	if err != nil {
		return p, fmt.Errorf("%w: read parked message %s at sink %s: %w", source.ErrStop, r.id, r.sink, err)
	}
	return p, nil
}

// collectParked reads all rows of a query for parkedColumns.
func collectParked(rows pgx.Rows) ([]checkpoint.Parked, error) {
	var out []checkpoint.Parked
	defer rows.Close()
	for rows.Next() {
		var r parkedRow
		if err := rows.Scan(r.targets()...); err != nil {
			return nil, fmt.Errorf("read parked deliveries: %w", err)
		}
		p, err := r.parked()
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// complete is store.Complete.
func (s *stateStore) complete(ctx context.Context, ps []checkpoint.Parked, lane bool) (out []checkpoint.Parked, again time.Duration, err error) {
	return store.Complete(ctx, ps, lane, func(ctx context.Context, table, id string) ([]*outbox.Message, error) {
		t := s.tables.byName[table]
		if t == nil {
			return nil, nil
		}
		ms, err := s.readRows(ctx, t, []string{id}, "")
		if passingTrouble(err) {
			return nil, store.ErrTableLocked
		}
		return ms, err
	})
}

// readRows reads rows of a table (alias t) as messages, by id; where limits them. They come in the order in which rows are
// swept. Position and time of the commit are not set.
func (s *stateStore) readRows(ctx context.Context, t *table, ids []string, where string) ([]*outbox.Message, error) {
	reader, err := newRowReader(ctx, s.conn.PgConn(), &t.Table, s.cfg.MaxMessage)
	if err != nil {
		return nil, s.fault("read rows", err)
	}
	return s.readSome(ctx, t, reader, ids, where, math.MaxInt)
}

// readUpTo is readRows up to the row that makes them so many bytes. The rows' order is found out first, so that the others
// are not read.
func (s *stateStore) readUpTo(ctx context.Context, t *table, ids []string, where string, bytes int) ([]*outbox.Message, error) {
	reader, err := newRowReader(ctx, s.conn.PgConn(), &t.Table, s.cfg.MaxMessage)
	if err != nil {
		return nil, s.fault("read rows", err)
	}
	rows, err := s.selectRows(ctx, t, reader, reader.id("t"), nil, ids, where)
	if err != nil {
		return nil, err
	}
	ordered, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.fault("read ids of table "+t.String(), err)
	}
	seen := make(map[string]bool, len(ordered)) // an id that is not unique is asked for once
	ordered = slices.DeleteFunc(ordered, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
	var ms []*outbox.Message
	for n := 1; len(ordered) > 0 && bytes > 0; n = min(2*n, readMost) {
		n = min(n, len(ordered))
		some, err := s.readSome(ctx, t, reader, ordered[:n], where, bytes)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			bytes -= m.Size()
		}
		ms, ordered = append(ms, some...), ordered[n:]
	}
	return ms, nil
}

// readMost rows are asked for at once where their size matters.
const readMost = 64

// readSome reads rows up to the one that makes them so many bytes.
func (s *stateStore) readSome(ctx context.Context, t *table, reader *rowReader, ids []string, where string, bytes int) ([]*outbox.Message, error) {
	rows, err := s.selectRows(ctx, t, reader, reader.list("t"), reader.formats(0), ids, where)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ms []*outbox.Message
	for bytes > 0 && rows.Next() {
		m, err := reader.message(rows)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
		bytes -= m.Size()
	}
	rows.Close() // what the server still sends is read and forgotten
	if err := rows.Err(); err != nil {
		return nil, s.fault("read rows of table "+t.String(), err)
	}
	return ms, nil
}

// selectRows asks for rows of a table (alias t) by id.
func (s *stateStore) selectRows(ctx context.Context, t *table, reader *rowReader, list string, formats pgx.QueryResultFormats, ids []string,
	where string) (pgx.Rows, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !t.findable(id) })
	param, err := t.id.array(ids)
	if err != nil {
		return nil, fmt.Errorf("%w: read rows of table %s: %w", source.ErrStop, t, err)
	}
	sql := "SELECT " + list + " FROM " + t.sql + " AS t WHERE t." + quoteIdent(t.Columns.ID) + t.id.equals + "ANY ($1::" + t.id.cast + ")"
	if where != "" {
		sql += " AND " + where
	}
	args := []any{param}
	if formats != nil {
		args = []any{formats, param}
	}
	rows, err := s.conn.Query(ctx, sql+" ORDER BY "+reader.table.order("t", false), args...)
	if err != nil {
		return nil, s.fault("read rows of table "+t.String(), err)
	}
	return rows, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
