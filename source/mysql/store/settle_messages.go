package store

import (
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// whereMessages is the condition, of alias p, for all deliveries of messages of one table.
const whereMessages = `p.pipeline = ? AND p.message_id IN (?) AND p.source_table = ?`

// byTable brings messages together by table, in chunks.
func byTable(ms []*store.Message) (chunks [][]*store.Message) {
	tables := make(map[string][]*store.Message)
	var order []string
	for _, m := range ms {
		if tables[m.Key.Table] == nil {
			order = append(order, m.Key.Table)
		}
		tables[m.Key.Table] = append(tables[m.Key.Table], m)
	}
	for _, name := range order {
		for chunk := range slices.Chunk(tables[name], keyChunk) {
			chunks = append(chunks, chunk)
		}
	}
	return chunks
}

// messageArgs are the arguments of whereMessages.
func (a *attempt) messageArgs(ms []*store.Message) []any {
	ids := make(quote.List, len(ms))
	for i, m := range ms {
		ids[i] = m.Key.ID
	}
	return []any{a.s.Config.Pipeline, ids, quote.Bin(ms[0].Key.Table)}
}

// queueLookup asks what is parked of the messages collected so far. The first deliveries of lanes are known when its answer
// comes.
func (a *attempt) queueLookup(b *session.Batch) {
	for _, ms := range byTable(a.Messages.Order) {
		table := ms[0].Key.Table
		b.Each(func(r session.Row) error {
			v := store.ParkedView{Sink: r.Text(7), State: checkpoint.State(r.Text(1)), Attempts: int(r.Num(2)), LastError: r.Text(4), InTable: r.Bool(5),
				RowSettled: r.Bool(6)}
			if !r.Null(3) {
				at, err := r.Time(3)
				if err != nil {
					return err
				}
				v.Next = &at
			}
			k := checkpoint.Key{Sink: r.Text(7), Table: table, ID: r.Text(0)}
			if at, ok := a.Lanes.Next(checkpoint.Lane{Sink: k.Sink, Group: r.Text(8)}, k, *a.now); ok {
				v.Next = &at
			}
			a.Messages.Of(store.KeyOfMessage(k)).See(v)
			return nil
		}, `SELECT p.message_id, p.state, p.attempts, p.next_attempt_at, p.last_error, p.in_table, p.row_settled, p.sink,
				p.message_group
			FROM {parked} p FORCE INDEX (PRIMARY) WHERE `+whereMessages, a.messageArgs(ms)...)
	}
}

// queueCleanup removes deliveries that are over, and notes what is still to be done about rows.
func (a *attempt) queueCleanup(b *session.Batch) {
	c := a.s.Cleanup(a.Attempt)
	queue := func(sql string, ms []*store.Message) {
		for _, ms := range byTable(ms) {
			b.Exec(sql, a.messageArgs(ms)...)
		}
	}
	for _, want := range []bool{true, false} {
		value := string(quote.Append(nil, want))
		queue("UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.unfinished = "+value+" WHERE "+whereMessages, only(c.Unfinished, c.UnfinishedWant, want))
	}
	queue("DELETE p FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereMessages+" AND p.state IN ('dropped', 'delivered')", c.Over)
	queue("DELETE p FROM {parked} p FORCE INDEX (PRIMARY) WHERE "+whereMessages+" AND p.state = 'delivered'", c.Kept)
	for _, want := range []bool{true, false} {
		value := string(quote.Append(nil, want))
		queue("UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.row_settled = "+value+" WHERE "+whereMessages, only(c.Settled, c.SettledWant, want))
	}
}

// only are the messages of which the wanted value is this one.
func only(ms []*store.Message, values []bool, want bool) (out []*store.Message) {
	for i, m := range ms {
		if values[i] == want {
			out = append(out, m)
		}
	}
	return out
}
