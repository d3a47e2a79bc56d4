package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// parkChunk and parkChunkBytes bound one insert into tailbox_parked.
	parkChunk      = 1000
	parkChunkBytes = 16 << 20
)

// insertParked parks deliveries. One that is parked already (the log is read again after a crash) stays as it is: its
// attempts, and that it is dead, must not be forgotten.
//
// A delivery that blocks its lane gets no time: only the first of a lane has one. What was parked is returned.
//
// If another message is parked under the same id, a delivery gets an id of its own, as from store.OwnIDs.
func insertParked() string {
	made := map[string]string{
		"message_id":      "CASE WHEN by_commit THEN $2 || substr(v.position, 10) WHEN by_log THEN $2 || v.position ELSE v.message_id END",
		"sent_id":         "nullif(CASE WHEN (by_commit OR by_log) AND v.sent_id = '' THEN v.message_id ELSE v.sent_id END, '')",
		"tried_at":        "CASE WHEN v.tries > 0 THEN now() END",
		"next_attempt_at": "CASE WHEN v.due AND NOT v.blocks THEN now() + v.delay * interval '1 microsecond' END",
		"parked_at":       "now()", "changed_at": "now()",
	}
	var names, values []string
	for _, c := range new(store.ParkedRow).Columns() {
		value, ok := made[c.Name]
		if !ok {
			value = parameterValue(&c, "v."+c.Name)
		}
		names, values = append(names, c.Name), append(values, value)
	}
	return `
INSERT INTO {parked} (pipeline, ` + strings.Join(names, ", ") + `)
SELECT $1, ` + strings.Join(values, ", ") + `
FROM ` + unnest(new(parkColumns).columns(), 3) + `,
LATERAL (SELECT coalesce(bool_or(substr(position, 10, 16) <> substr(v.position, 10, 16)), false) AS by_commit,
	coalesce(bool_or(substr(position, 1, 8) <> substr(v.position, 1, 8) AND ` + store.DetachedSQL + `), false) AS by_log
	FROM {parked} p WHERE p.pipeline = $1 AND p.message_id = v.message_id AND p.source_table = v.source_table AND p.sink = v.sink) AS already
ON CONFLICT (pipeline, message_id, source_table, sink) DO NOTHING` + `
RETURNING sink, source_table, message_id, position`
}

// parkColumns are the deliveries of one insert.
type parkColumns struct {
	rowArrays
	due      bool
	delay    int64 // microseconds
	n, bytes int
	// wanted is how soon a delivery is tried if it turns out to be the first of its lane.
	wanted map[parkedPlace]time.Duration
}

// A parkedPlace is what a delivery is known by before it has its identity.
type parkedPlace struct{ sink, table, position string }

// columns returns what the statement is given. The server sets all times but the message's.
func (c *parkColumns) columns() []store.Column {
	given := slices.DeleteFunc(c.row.Columns(), func(c store.Column) bool {
		_, isTime := c.To.(*time.Time)
		return isTime && c.Part == store.State
	})
	return append(given, store.Column{Name: "due", To: &c.due}, store.Column{Name: "delay", To: &c.delay})
}

// add appends a delivery. rowSettled: its message's row is dealt with in the same settlement. first: no delivery before
// it in the same settlement blocks its lane.
func (c *parkColumns) add(p *checkpoint.Parked, rowSettled, first bool) {
	c.row.Park(p, time.Time{}, rowSettled)
	c.due, c.delay = store.Timed(p.Due, p.State), p.NextAttempt.Microseconds()
	if c.due && c.row.Blocks && first {
		c.wanted[parkedPlace{p.Sink, p.Message.Table, c.row.Position}] = p.NextAttempt
	}
	c.appendRow()
	c.n++
	c.bytes += p.Message.Size()
}

func newParkColumns(of session.Encoding) *parkColumns {
	c := &parkColumns{rowArrays: rowArrays{encoding: of}, wanted: make(map[parkedPlace]time.Duration)}
	c.bind(c.columns())
	return c
}

// queueParks adds the inserts to a batch, and the lanes that they touch to those of the attempt. If more than parkChunkBytes are queued, it sends
// them, because a queued insert is in memory twice. It returns the batch to go on with.
func (a *attempt) queueParks(ctx context.Context, b *pgx.Batch) (*pgx.Batch, error) {
	s, parks := a.s, store.OwnIDs(a.In.Park, true, nil)
	if len(parks) == 0 {
		return b, nil
	}
	settling := a.Settling()
	s.queueHeadsOf(b, a.ParkedLanes(), a.Lanes.Before)
	first := store.FirstOfLanes(parks)
	cols, queued := newParkColumns(s.encoding), 0
	for i := range parks {
		p := &parks[i]
		s.Sinks[p.Sink] = true
		key := store.MessageKey{Table: p.Message.Table, ID: store.TableID(p)}
		cols.add(p, settling[key], first[i])
		if !store.Alone(p) {
			a.Lanes.Touched.Add(checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group})
		}
		if cols.n == parkChunk || cols.bytes > parkChunkBytes || i == len(parks)-1 {
			a.queueInsert(b, cols)
			queued += cols.bytes
			cols = newParkColumns(s.encoding)
		}
		if queued > parkChunkBytes {
			if err := s.send(ctx, b); err != nil {
				return nil, err
			}
			b, queued = &pgx.Batch{}, 0
		}
	}
	return b, nil
}

// queueInsert parks deliveries. For those that were not parked before, it notes when to try them.
func (a *attempt) queueInsert(b *pgx.Batch, c *parkColumns) {
	b.Queue(a.s.SQL(insertParked()), append([]any{a.s.Cfg.Pipeline, outbox.StandInID("")}, c.arrays...)...).Query(func(rows pgx.Rows) error {
		var k checkpoint.Key
		var position string
		_, err := pgx.ForEachRow(rows, []any{&k.Sink, &k.Table, &k.ID, &position}, func() error {
			if wait, ok := c.wanted[parkedPlace{k.Sink, k.Table, position}]; ok {
				a.Lanes.Want(k, wait)
			}
			return nil
		})
		return err
	})
}
