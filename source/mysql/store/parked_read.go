package store

import (
	"context"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// ParkedColumns are what a ParkedReader reads, of alias p.
func ParkedColumns() string {
	return columnNames(new(store.ParkedRow).Columns(), "p.") + ", UTC_TIMESTAMP(6)"
}

// BareColumns are ParkedColumns without payloads.
func BareColumns() string { return strings.Replace(ParkedColumns(), "p.`payload`", "NULL", 1) }

// columnNames lists columns, each with what comes before its name.
func columnNames(columns []store.Column, before string) string {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = before + quote.Ident(columns[i].Name)
	}
	return strings.Join(names, ", ")
}

// appendValues appends what the columns' fields hold, as parameters.
func appendValues(args []any, columns []store.Column) []any {
	for i := range columns {
		c := &columns[i]
		switch to := c.To.(type) {
		case store.JSON:
			args = append(args, to.Text())
		case *string:
			switch {
			case *to == "" && c.Null:
				args = append(args, nil)
			case c.Kind == store.Text:
				args = append(args, quote.Bin(*to))
			default:
				args = append(args, *to)
			}
		case *bool:
			args = append(args, *to)
		case *int:
			args = append(args, *to)
		case *int32:
			args = append(args, *to)
		case *int64:
			args = append(args, *to)
		case *[]byte:
			args = append(args, *to)
		case *time.Time:
			args = append(args, *to)
		}
	}
	return args
}

// readColumn puts the value into the column's field.
func readColumn(r session.Row, i int, c *store.Column) (err error) {
	switch to := c.To.(type) {
	case store.JSON:
		return to.Read(r.TextOrNil(i))
	case *string:
		*to = r.Text(i)
	case *bool:
		*to = r.Bool(i)
	case *int:
		*to = int(r.Num(i))
	case *int32:
		*to = int32(r.Num(i))
	case *int64:
		*to = r.Num(i)
	case *[]byte:
		*to = r.Bytes(i)
	case *time.Time:
		*to, err = r.Time(i)
	}
	return err
}

// ParkedReader reads rows of ParkedColumns, one after the other, and hands them on with the server's time.
func ParkedReader(on func(p *store.ParkedRow, now time.Time) error) func(session.Row) error {
	var p store.ParkedRow
	columns := p.Columns()
	return func(r session.Row) error {
		p = store.ParkedRow{}
		for i := range columns {
			if err := readColumn(r, i, &columns[i]); err != nil {
				return p.Unreadable(err)
			}
		}
		now, err := r.Time(len(columns))
		if err != nil {
			return p.Unreadable(err)
		}
		return on(&p, now)
	}
}

// whereKeys is the condition, of alias p, for deliveries of one table and sink by the ids of their rows.
const whereKeys = `p.pipeline = ? AND p.message_id IN (?) AND p.source_table = ? AND p.sink = ?`

// keyChunk is the most deliveries, or messages, that one statement looks up.
const keyChunk = 500

// A lookup is the ids of deliveries of one table and sink.
type lookup struct {
	table, sink string
	ids         quote.List
}

// lookups brings keys together by table and sink, in chunks, in the order in which they come up.
func lookups(n int, key func(int) checkpoint.Key) []lookup {
	var out []lookup
	open := make(map[[2]string]int)
	for i := range n {
		k := key(i)
		at, ok := open[[2]string{k.Table, k.Sink}]
		if !ok || len(out[at].ids) == keyChunk {
			at = len(out)
			open[[2]string{k.Table, k.Sink}] = at
			out = append(out, lookup{table: k.Table, sink: k.Sink})
		}
		out[at].ids = append(out[at].ids, k.ID)
	}
	return out
}

// ReadKeys implements relational.Statements.
func (s *Store) ReadKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error) {
	out := make([]checkpoint.Parked, 0, len(keys))
	if err := s.ReadParked(ctx, keys, ParkedColumns(), func(r *store.ParkedRow, now time.Time) error {
		p, err := r.Delivery(now)
		out = append(out, p)
		return err
	}); err != nil {
		return nil, server.Fault("read deliveries", err)
	}
	return out, nil
}

// ReadParked reads deliveries, in no order: ParkedColumns or BareColumns.
func (s *Store) ReadParked(ctx context.Context, keys []checkpoint.Key, columns string, on func(*store.ParkedRow, time.Time) error) error {
	b := s.Batch()
	for _, l := range lookups(len(keys), func(i int) checkpoint.Key { return keys[i] }) {
		b.Each(ParkedReader(on), "SELECT "+columns+" FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereKeys, s.Config.Pipeline, l.ids, quote.Bin(l.table), l.sink)
	}
	return s.Send(ctx, b)
}

// ReadRows implements relational.Statements.
func (s *Store) ReadRows(ctx context.Context, table string, ids []string, pending bool) ([]*outbox.Message, error) {
	t, where := s.tables.ByName[table], ""
	if t == nil {
		return nil, nil
	}
	if pending {
		where = t.Pending()
	}
	return t.Read(ctx, s.Session, ids, where)
}
