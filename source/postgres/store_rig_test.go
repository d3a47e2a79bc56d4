package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// A storeRig is a database with the relay's tables, and a store on it.
type storeRig struct {
	*rig
	ctx context.Context
	st  *stateStore
}

// newStoreRig makes the tables of the shapes, and opens and loads a store. Each table is of a shape of ours; change may
// alter the configuration.
func newStoreRig(t testing.TB, pg *servers.PG, change func(*Config), tables ...outbox.Table) *storeRig {
	t.Helper()
	return newStoreRigIn(t, pg, pg.NewDatabase(t), change, tables...)
}

// newStoreRigIn does it in a database that is there already.
func newStoreRigIn(t testing.TB, pg *servers.PG, db string, change func(*Config), tables ...outbox.Table) *storeRig {
	t.Helper()
	cfg := Config{Tables: tables}
	var ddl []string
	for i := range tables {
		sql, err := outboxSQL(&tables[i])
		if err != nil {
			t.Fatal(err)
		}
		ddl = append(ddl, sql)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &storeRig{rig: newRigIn(t, pg, db, strings.Join(append(ddl, tableNames("").ownTables()), ";;"), cfg.Tables...), ctx: ctx}
	if change != nil {
		change(&r.cfg)
	}
	r.open()
	return r
}

// open opens a store, loads it, and closes it at the test's end.
func (r *storeRig) open() *checkpoint.Loaded {
	r.t.Helper()
	st, err := openStore(r.ctx, r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = st.Close(context.Background()) })
	r.st = st
	loaded, err := st.Load(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return loaded
}

// reopen ends the session and starts again.
func (r *storeRig) reopen() *checkpoint.Loaded {
	r.t.Helper()
	if err := r.st.Close(r.ctx); err != nil {
		r.t.Fatal(err)
	}
	return r.open()
}

func (r *storeRig) settle(s checkpoint.Settlement) *checkpoint.Settled {
	r.t.Helper()
	out, err := r.st.Settle(r.ctx, &s)
	if err != nil {
		r.t.Fatalf("settle: %v", err)
	}
	return out
}

func (r *storeRig) park(ps ...checkpoint.Parked) {
	r.t.Helper()
	r.settle(checkpoint.Settlement{Park: ps})
}

// parkWhole parks deliveries and settles their messages' rows.
func (r *storeRig) parkWhole(ps ...checkpoint.Parked) *checkpoint.Settled {
	r.t.Helper()
	s := checkpoint.Settlement{Park: ps}
	for _, p := range ps {
		s.Rows = append(s.Rows, checkpoint.Row{Table: p.Message.Table, ID: p.Message.ID, Position: p.Message.Position, Parked: true})
	}
	return r.settle(s)
}

// due names what is due at the sinks, as sink:id, in order.
func (r *storeRig) due(sinks ...string) string {
	r.t.Helper()
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: sinks, Limit: 100, Bytes: 16 << 20})
	if err != nil {
		r.t.Fatalf("due: %v", err)
	}
	return deliveries(ps)
}

func deliveries(ps []checkpoint.Parked) string {
	var names []string
	for i := range ps {
		names = append(names, ps[i].Sink+":"+short(ps[i].Message.ID))
	}
	return strings.Join(names, " ")
}

// short is the number in an eventID.
func short(id string) string { return strings.TrimLeft(id[strings.LastIndex(id, "-")+1:], "0") }

// parkedRows shows tailbox_parked: sink:id state[!][@], where ! blocks and @ has a time.
func (r *storeRig) parkedRows() string {
	r.t.Helper()
	return r.text(`SELECT coalesce(string_agg(sink || ':' || ltrim(split_part(message_id, '-', 5), '0') || ' ' || state
		|| CASE WHEN blocks THEN '!' ELSE '' END || CASE WHEN next_attempt_at IS NOT NULL THEN '@' ELSE '' END,
		', ' ORDER BY position, sink), '') FROM tailbox_parked`)
}

// msg is message i of a group in table public.outbox, at position {1, 100+i, 0}.
func msg(i int, group string) *outbox.Message {
	return &outbox.Message{ID: eventID(i), Type: "T", Topic: "topic", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: "public.outbox", Position: outbox.Position{Log: 1, Commit: uint64(100 + i)}, CommitTime: time.Unix(1700000000, 0)}
}

// head is a delivery that is retried after d, follower one that waits behind it, dead one under hold.
func head(sink string, m *outbox.Message, d time.Duration) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateRetrying, Blocks: m.Group != "", Attempts: 1, Due: true,
		NextAttempt: d, LastError: "boom", ErrorClass: "rejected"}
}

func follower(sink string, m *outbox.Message) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateWaiting, Blocks: true}
}

func dead(sink string, m *outbox.Message, blocks bool) checkpoint.Parked {
	return checkpoint.Parked{Sink: sink, Message: m, State: checkpoint.StateDead, Blocks: blocks, Attempts: 15, LastError: "bad",
		ErrorClass: "permanent"}
}

// delivered is the Change for a delivery that succeeded.
func delivered(sink string, m *outbox.Message) checkpoint.Change {
	return checkpoint.Change{Key: checkpoint.Key{Sink: sink, Table: m.Table, ID: m.ID}, Group: m.Group, Delivered: true}
}

// retried is the Change for one that failed again.
func retried(sink string, m *outbox.Message, attempts int, d time.Duration) checkpoint.Change {
	return checkpoint.Change{Key: checkpoint.Key{Sink: sink, Table: m.Table, ID: m.ID}, Group: m.Group, State: checkpoint.StateRetrying,
		Blocks: m.Group != "", Attempts: attempts, Due: true, NextAttempt: d, LastError: "again", ErrorClass: "rejected"}
}

// ask records a request as an operator would, and carries it out to its end as the relay does.
func (r *storeRig) ask(verb checkpoint.Verb, sel checkpoint.Selection) (*store.RequestResult, *checkpoint.Applied) {
	r.t.Helper()
	text, err := json.Marshal(sel)
	if err != nil {
		r.t.Fatal(err)
	}
	r.exec(`INSERT INTO tailbox_request (pipeline, verb, selection, reason, "by") VALUES ($1, $2, $3, 'why', 'op')`,
		r.cfg.Pipeline, string(verb), string(text))
	return r.obey()
}

// obey carries out all open requests, and returns the last one's result, and what its transactions did together.
func (r *storeRig) obey() (*store.RequestResult, *checkpoint.Applied) {
	r.t.Helper()
	all := &checkpoint.Applied{}
	requests, err := r.st.Requests(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range requests {
		for rounds := 0; ; rounds++ {
			lanes, err := r.st.Lanes(r.ctx, &requests[i], 50)
			if err != nil {
				r.t.Fatal(err)
			}
			applied, err := r.st.Apply(r.ctx, &requests[i], lanes)
			if err != nil {
				r.t.Fatal(err)
			}
			all.Changed += applied.Changed
			all.Open, all.Blocked = append(all.Open, applied.Open...), append(all.Blocked, applied.Blocked...)
			if applied.Done {
				break
			}
			if rounds > 1000 {
				r.t.Fatalf("request %d does not end", requests[i].ID)
			}
		}
	}
	result := &store.RequestResult{}
	if err := json.Unmarshal([]byte(r.text("SELECT result::text FROM tailbox_request ORDER BY id DESC LIMIT 1")), result); err != nil {
		r.t.Fatal(err)
	}
	if r.text("SELECT count(*)::text FROM tailbox_request WHERE done_at IS NULL") != "0" {
		r.t.Error("a request is not done")
	}
	return result, all
}

// row inserts message i into public.outbox of either shape.
func (r *storeRig) row(i int) {
	r.t.Helper()
	if r.st.tables.byName["public.outbox"].Shape == "debezium" {
		r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ($1, 'a', 'b', 'T', '{}')`, eventID(i))
		return
	}
	r.exec(`INSERT INTO outbox (id, type, topic, message_group, payload) VALUES ($1, 'T', 'topic', 'g', '{}')`, eventID(i))
}

// rows shows public.outbox: the ids that are there or, with a status column, id status attempts error.
func (r *storeRig) rows() string {
	r.t.Helper()
	show := "''"
	if r.st.tables.byName["public.outbox"].Columns.Status != "" {
		show = `' ' || status || ' ' || attempts || coalesce(' ' || last_error, '') || CASE WHEN delivered_at IS NULL THEN '' ELSE ' !' END`
	}
	return r.text(`SELECT coalesce(string_agg(ltrim(split_part(id::text, '-', 5), '0') || ` + show + `, ', ' ORDER BY id), '') FROM outbox`)
}

// rowOf is the Row of a message that is settled.
func rowOf(m *outbox.Message, parked bool) checkpoint.Row {
	return checkpoint.Row{Table: m.Table, ID: m.ID, Position: m.Position, Txn: m.Txn, Parked: parked}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func lanesText(lanes []checkpoint.Lane) string {
	var names []string
	for _, l := range lanes {
		names = append(names, l.Sink+"/"+l.Group)
	}
	return strings.Join(names, " ")
}
