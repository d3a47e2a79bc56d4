package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// newestDead lists dead letters along the index of them, in its order from the end, with whether each is among those that a selection narrows down
// to. It begins with those whose row is unfinished, or is not: the index has them apart.
const newestDead = `
SELECT p.sink, p.message_group, p.position, p.message_id, p.source_table, p.dead_at, ? FROM {parked} p FORCE INDEX (tailbox_parked_unfinished)
WHERE p.pipeline = ? AND p.unfinished = ? AND p.dead_at >= ? AND p.dead_at < ? AND p.dead_at <= ?
	AND (p.dead_at < ? OR p.message_id < ? OR p.message_id = ? AND (p.source_table < ? OR p.source_table = ? AND p.sink < ?))
ORDER BY p.dead_at DESC, p.message_id DESC, p.source_table DESC, p.sink DESC LIMIT ?`

// firstDatetime is the beginning of DATETIME.
var firstDatetime = time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)

// orTime is a time that a DATETIME can be compared with.
func orTime(t, zero time.Time) time.Time {
	if t.IsZero() {
		return zero
	}
	return t
}

// Newest implements operate.Reader.
func (s reader) Newest(ctx context.Context, sel *checkpoint.Selection, during operate.Span, after *operate.DeadKey, look int) (seen []operate.DeadRow, err error) {
	if after == nil {
		after = &operate.DeadKey{}
	}
	matches := s.Matching(sel)
	if len(sel.Groups) > 0 {
		matches += quote.Raw(" AND p.message_group IN (" + string(quote.Append(nil, quote.List(sel.Groups))) + ")")
	}
	if len(sel.IDs) > 0 {
		ids := string(quote.Append(nil, quote.List(sel.IDs)))
		matches += quote.Raw(" AND (p.message_id IN (" + ids + ") OR COALESCE(p.sent_id IN (" + ids + "), 0))")
	}
	at := orTime(after.At, quote.LastDatetime)
	b := s.Batch()
	for _, unfinished := range []bool{false, true} {
		b.Each(func(r session.Row) (err error) {
			row := operate.DeadRow{SelectedRow: store.SelectedRow{ParkedKey: store.ParkedKey{Sink: r.Text(0), Group: r.Text(1), Position: r.Text(2), ID: r.Text(3), Table: r.Text(4)},
				State: checkpoint.StateDead}, Matches: r.Bool(6)}
			row.At, err = r.Time(5)
			seen = append(seen, row)
			return err
		}, newestDead, matches, s.Config.Pipeline, unfinished, orTime(during.Since, firstDatetime), orTime(during.Until, quote.LastDatetime), at, at,
			quote.Bin(after.ID), quote.Bin(after.ID), quote.Bin(after.Table), quote.Bin(after.Table), after.Sink, look)
	}
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("list dead letters", err)
	}
	slices.SortFunc(seen, func(x, y operate.DeadRow) int {
		a, b := x.Place(), y.Place()
		return b.Compare(&a)
	})
	return seen[:min(len(seen), look)], nil
}

const (
	// oldestCounted finds the dead letter up to which a summary counts.
	oldestCounted = `
SELECT dead_at FROM {parked} FORCE INDEX (tailbox_parked_unfinished) WHERE pipeline = ? AND unfinished = 0 AND dead_at IS NOT NULL ORDER BY dead_at DESC LIMIT ?, 1`
	// deadRows are the dead letters that a summary looks at, along the index, and parkedRows so many deliveries.
	deadRows   = `{parked} FORCE INDEX (tailbox_parked_unfinished) WHERE pipeline = ? AND unfinished IN (0, 1) AND dead_at >= ?`
	parkedRows = `(SELECT state IN (?) AS fits, sink, error_class, LEFT(type, 255) AS type, changed_at, message_id FROM {parked} WHERE pipeline = ? LIMIT ?) p`
)

// causes are what deliveries are grouped by, of what is in the index of dead letters and of all others: those of other states are one group.
func causes() []cause {
	return []cause{{operate.ByClass, "dead_class", "IF(fits, error_class, '')"}, {operate.ByType, "dead_type", "IF(fits, type, '')"}, {operate.BySink, "sink", "IF(fits, sink, '')"}}
}

type cause struct {
	of           operate.Cause
	dead, parked string
}

// countFailures is a query that counts deliveries by what they have in common: first those in the states that are asked for, the most frequent first.
func countFailures(by []operate.Cause, dead bool, from string) string {
	at, fits := "changed_at", "fits"
	if dead {
		at, fits = "dead_at", "1"
	}
	var columns []string
	for _, c := range causes() {
		switch {
		case !slices.Contains(by, c.of):
			columns = append(columns, "''")
		case dead:
			columns = append(columns, c.dead)
		default:
			columns = append(columns, c.parked)
		}
	}
	return fmt.Sprintf(`SELECT %s AS class, %s AS kind, %s AS place, %s AS counts, COUNT(*) AS n, MIN(%s), MAX(%[5]s), MAX(message_id) FROM %s
		GROUP BY class, kind, place, counts ORDER BY counts DESC, n DESC, class, kind, place LIMIT %d`, columns[0], columns[1], columns[2], fits, at, from, operate.MostFailures+2)
}

// Summarize implements operate.Reader.
func (s reader) Summarize(ctx context.Context, states []checkpoint.State, by []operate.Cause) (*operate.Summary, error) {
	b := s.Batch()
	var sql string
	var args []any
	if operate.OnlyDead(states) {
		oldest := firstDatetime
		b.Each(func(r session.Row) (err error) {
			oldest, err = r.Time(0)
			return err
		}, oldestCounted, s.Config.Pipeline, operate.MostCounted(states)-1)
		if err := s.Send(ctx, b); err != nil {
			return nil, server.Fault("count failures", err)
		}
		sql, args = countFailures(by, true, deadRows), []any{s.Config.Pipeline, oldest}
	} else {
		names := store.StatesOf(&checkpoint.Request{Selection: checkpoint.Selection{States: states}})
		sql, args = countFailures(by, false, parkedRows), []any{quote.List(names), s.Config.Pipeline, operate.MostCounted(states)}
	}
	var groups []operate.Failure
	var fits []bool
	counted := 0 // of the groups that are listed: if there are more, the summary is partial anyway
	b.Each(func(r session.Row) (err error) {
		f := operate.Failure{Class: r.Text(0), Type: strings.ToValidUTF8(r.Text(1), ""), Sink: r.Text(2), Count: int(r.Num(4)), ExampleID: r.Text(7)}
		if f.First, err = r.Time(5); err == nil {
			f.Last, err = r.Time(6)
		}
		groups, fits, counted = append(groups, f), append(fits, r.Bool(3)), counted+f.Count
		return err
	}, sql, args...)
	if err := s.Send(ctx, b); err != nil {
		return nil, server.Fault("count failures", err)
	}
	found := &operate.Summary{}
	for i := range groups {
		found.Add(&groups[i], fits[i], counted >= operate.MostCounted(states))
	}
	return found, nil
}
