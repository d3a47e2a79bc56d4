package store

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
)

const (
	replayParked = `
UPDATE {parked} p SET state = 'waiting', blocks = NOT p.alone, attempts = 0, tries = 0, failed_epoch = 0, failed_call = 0, tried_at = NULL,
	replays = p.replays + 1, last_error = NULL, error_class = NULL, next_attempt_at = CASE WHEN p.alone THEN now() END, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	dropParked = `
UPDATE {parked} p SET state = 'dropped', blocks = false, next_attempt_at = NULL, error_class = 'dropped', last_error = $5, changed_at = now()
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`

	skipParked = `
UPDATE {parked} p SET blocks = false, state = 'dead', next_attempt_at = NULL, changed_at = CASE p.state WHEN 'dead' THEN p.changed_at ELSE now() END
FROM unnest($2::text[], $3::text[], $4::text[]) AS v (sink, source_table, message_id)` + parkedAt + `WHERE p.ctid = at.ctid`
)

// rewriteParked replaces what deliveries carry.
func rewriteParked() string {
	var sets []string
	columns := rewritten(new(store.ParkedRow))
	for _, c := range columns {
		if c.Part != store.State {
			sets = append(sets, c.Name+" = "+parameterValue(&c, "v."+c.Name))
		}
	}
	return "UPDATE {parked} p SET " + strings.Join(sets, ", ") + " FROM " + unnest(columns, 2) + parkedAt + "WHERE p.ctid = at.ctid"
}

// rewritten are the columns that rewriteParked is given: the key, and what it replaces.
func rewritten(row *store.ParkedRow) []store.Column {
	return slices.DeleteFunc(row.Columns(), func(c store.Column) bool {
		return c.Part == store.State && !slices.Contains([]string{"sink", "source_table", "message_id"}, c.Name)
	})
}

// effects implement store.Effects by the statements of the transaction of an attempt.
type effects struct{ *attempt }

func (e effects) Record(ctx context.Context, id int64, result *store.RequestResult, done bool) error {
	return e.s.noteResult(ctx, id, result, done)
}

func (e effects) InForce(ctx context.Context) (store.Forces, error) { return e.s.InForce(ctx) }

func (e effects) SaveForce(ctx context.Context, id int64, f *store.Force) error {
	return e.s.saveForce(ctx, id, f)
}

func (e effects) Scope() (*store.Attempt, *store.Memory) { return &e.Attempt.Attempt, &e.s.Memory }

func (e effects) AddMessage(key store.MessageKey) { e.Messages.Of(key) }

func (e effects) RowWord() string { return "row" }

func (e effects) Unfit(*checkpoint.Parked) (why string) { return "" }

// exec runs one of the statements above.
func (e effects) exec(ctx context.Context, sql string, rows []store.SelectedRow, further ...any) error {
	if len(rows) == 0 {
		return nil
	}
	sinks, tables, ids := keys(rows)
	_, err := e.s.Conn.Exec(ctx, e.s.SQL(sql), append([]any{e.s.Cfg.Pipeline, sinks, tables, ids}, further...)...)
	return err
}

func (e effects) Replay(ctx context.Context, rows []store.SelectedRow) error {
	return e.exec(ctx, replayParked, rows)
}

func (e effects) Drop(ctx context.Context, rows []store.SelectedRow, why string) error {
	return e.exec(ctx, dropParked, rows, e.s.encoding.Fit(why))
}

func (e effects) Skip(ctx context.Context, rows []store.SelectedRow) error {
	return e.exec(ctx, skipParked, rows)
}

func (e effects) Heads(ctx context.Context, lanes []checkpoint.Lane) (map[checkpoint.Lane]*store.LaneHead, error) {
	heads := make(map[checkpoint.Lane]*store.LaneHead, len(lanes))
	b := &pgx.Batch{}
	e.s.queueHeadsOf(b, lanes, heads)
	return heads, e.s.send(ctx, b)
}

func (e effects) ReadPending(ctx context.Context, rows []store.SelectedRow) (store.Present, error) {
	fresh := make(store.Present)
	for _, t := range e.s.tables.Order {
		ids := store.IDsOf(rows, t.String())
		if len(ids) == 0 {
			continue
		}
		found, err := e.s.readRows(ctx, t, ids, t.Pending("t."))
		if err != nil {
			return nil, err
		}
		fresh.Add(t.String(), found)
	}
	return fresh, nil
}

func (e effects) ReadParked(ctx context.Context, rows []store.SelectedRow) (map[store.ParkedKey]*checkpoint.Parked, error) {
	keys := make([]checkpoint.Key, len(rows))
	for i := range rows {
		keys[i] = rows[i].Key()
	}
	ps, err := e.s.readKeys(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make(map[store.ParkedKey]*checkpoint.Parked, len(ps))
	for i := range ps {
		out[store.KeyOf(&ps[i])] = &ps[i]
	}
	return out, nil
}

func (e effects) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	b := &pgx.Batch{}
	for i := range changed {
		e.queueRewrite(b, changed[i].Parked)
	}
	return e.s.send(ctx, b)
}

func (e effects) queueRewrite(b *pgx.Batch, p *checkpoint.Parked) {
	a := &rowArrays{encoding: e.s.encoding}
	a.bind(rewritten(&a.row))
	a.row.Sink, a.row.ID = p.Sink, p.RowID()
	a.row.Carry(p)
	a.appendRow()
	b.Queue(e.s.SQL(rewriteParked()), append([]any{e.s.Cfg.Pipeline}, a.arrays...)...)
}

// keys are the deliveries as parameters.
func keys(rows []store.SelectedRow) (sinks, tables, ids []string) {
	for i := range rows {
		sinks, tables, ids = append(sinks, rows[i].Sink), append(tables, rows[i].Table), append(ids, rows[i].ID)
	}
	return sinks, tables, ids
}
