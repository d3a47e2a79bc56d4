package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// storePatience bounds every wait for an event.
const storePatience = 60 * time.Second

// onBoth runs a test on both kinds of server.
func onBoth(t *testing.T, test func(*testing.T, *servers.My)) {
	t.Helper()
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, servers.SharedMySQL(t, kind))
		})
	}
}

// An opener opens the store of a pipeline.
type opener func(context.Context, config) (checkpoint.Store, error)

// A baseRig is a database with the relay's tables, and a store on it.
type baseRig struct {
	t      testing.TB
	my     *servers.My
	db     string
	ctx    context.Context
	conn   *client.Conn
	cfg    config
	opener opener
	st     checkpoint.Store
}

// bareRig makes a database with tables, and no store.
func bareRig(t testing.TB, my *servers.My, opens opener, ddl []string, tables ...outbox.Table) *baseRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*storePatience)
	t.Cleanup(cancel)
	r := &baseRig{t: t, my: my, db: my.NewDatabase(t), ctx: ctx, opener: opens}
	r.conn = r.connect()
	for _, sql := range ddl {
		r.exec(sql)
	}
	for i := range tables {
		tables[i].Schema = r.db
	}
	r.cfg = config{Kind: my.Kind, Pipeline: "p", URL: my.SocketURL(r.db), Tables: tables, Logger: slog.New(slog.DiscardHandler)}
	return r
}

// loadedRig makes tables of the shapes, and opens and loads a store. Change may alter the configuration.
func loadedRig(t testing.TB, my *servers.My, opens opener, change func(*config), tables ...outbox.Table) *baseRig {
	t.Helper()
	ddl := relayTables()
	for i := range tables {
		ddl = append(ddl, shapeDDL(&tables[i]))
	}
	r := bareRig(t, my, opens, ddl, tables...)
	if change != nil {
		change(&r.cfg)
	}
	r.open()
	return r
}

func relayTables() (ddl []string) {
	for _, m := range migrations() {
		ddl = append(ddl, statementsIn(m, "")...)
	}
	return append(ddl, statementsIn(record(), "")...)
}

// shapeDDL is a table of one of our shapes.
func shapeDDL(t *outbox.Table) string {
	if t.Shape == "debezium" {
		return "CREATE TABLE " + t.Name + " (id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, " +
			"type VARCHAR(255) NOT NULL, payload LONGTEXT)"
	}
	return "CREATE TABLE " + t.Name + " (id CHAR(36) PRIMARY KEY, type VARCHAR(255) NOT NULL, topic VARCHAR(255), message_group VARCHAR(255), " +
		"`key` VARCHAR(255), payload LONGBLOB NOT NULL, content_type VARCHAR(255), headers JSON, tenant VARCHAR(255), " +
		"idempotency_key VARCHAR(255) UNIQUE, correlation_id VARCHAR(255), priority INT, available_at DATETIME(6), max_attempts INT, " +
		"status VARCHAR(20) NOT NULL DEFAULT 'pending', attempts INT NOT NULL DEFAULT 0, last_attempt_at DATETIME(6), next_attempt_at DATETIME(6), " +
		"last_error TEXT, delivered_at DATETIME(6), created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), " +
		"seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE, KEY " + t.Name + "_pending (status, id))"
}

// storeShape is a table of a known shape.
func storeShape(name, table string) outbox.Table {
	s, ok := outbox.ShapeNamed(name)
	if !ok {
		panic(name)
	}
	return outbox.Table{Name: table, Shape: name, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
}

func (r *baseRig) connect() *client.Conn {
	r.t.Helper()
	conn, err := r.my.Connect(r.ctx, r.db)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	run(r.t, conn, "SET NAMES utf8mb4, group_concat_max_len = 1000000")
	return conn
}

func (r *baseRig) exec(sql string, args ...any) {
	r.t.Helper()
	run(r.t, r.conn, sql, args...)
}

func run(t testing.TB, conn *client.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Execute(sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *baseRig) text(sql string, args ...any) string {
	r.t.Helper()
	found, err := r.conn.Execute(sql, args...)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	if len(found.Values) == 0 || found.Values[0][0].Value() == nil {
		return ""
	}
	text, err := found.GetString(0, 0)
	if err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// until polls.
func (r *baseRig) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(storePatience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("waited for: %s", what)
		}
	}
}

// open opens a store, loads it, and closes it at the test's end.
func (r *baseRig) open() *checkpoint.Loaded {
	r.t.Helper()
	st, err := r.opener(r.ctx, r.cfg)
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
func (r *baseRig) reopen() *checkpoint.Loaded {
	r.t.Helper()
	if err := r.st.Close(r.ctx); err != nil {
		r.t.Fatal(err)
	}
	return r.open()
}

func (r *baseRig) settle(s checkpoint.Settlement) *checkpoint.Settled {
	r.t.Helper()
	out, err := r.st.Settle(r.ctx, &s)
	if err != nil {
		r.t.Fatalf("settle: %v", err)
	}
	return out
}

func (r *baseRig) park(ps ...checkpoint.Parked) {
	r.t.Helper()
	r.settle(checkpoint.Settlement{Park: ps})
}

// parkWhole parks deliveries and settles their messages' rows.
func (r *baseRig) parkWhole(ps ...checkpoint.Parked) *checkpoint.Settled {
	r.t.Helper()
	s := checkpoint.Settlement{Park: ps}
	for _, p := range ps {
		s.Rows = append(s.Rows, checkpoint.Row{Table: p.Message.Table, ID: p.Message.ID, Position: p.Message.Position, Parked: true})
	}
	return r.settle(s)
}

// due names what is due at the sinks, as sink:id, in order.
func (r *baseRig) due(sinks ...string) string {
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

func eventID(n int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", n) }

// short is the number in an eventID.
func short(id string) string { return strings.TrimLeft(id[strings.LastIndex(id, "-")+1:], "0") }

const shortSQL = "TRIM(LEADING '0' FROM SUBSTRING_INDEX(message_id, '-', -1))"

// parkedRows shows tailbox_parked: sink:id state[!][@], where ! blocks and @ has a time.
func (r *baseRig) parkedRows() string {
	r.t.Helper()
	return r.text("SELECT COALESCE(GROUP_CONCAT(CONCAT(sink, ':', " + shortSQL + ", ' ', state, IF(blocks, '!', ''), " +
		"IF(next_attempt_at IS NULL, '', '@')) ORDER BY position, sink SEPARATOR ', '), '') FROM tailbox_parked")
}

// msg is message i of a group in table outbox, at position {1, 100+i, 0}.
func (r *baseRig) msg(i int, group string) *outbox.Message {
	return &outbox.Message{ID: eventID(i), Type: "T", Topic: "topic", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: r.db + ".outbox", Position: outbox.Position{Log: 1, Commit: uint64(100 + i)}, CommitTime: time.Unix(1700000000, 0)}
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
func (r *baseRig) ask(verb checkpoint.Verb, sel checkpoint.Selection) (*store.RequestResult, *checkpoint.Applied) {
	r.t.Helper()
	text, err := json.Marshal(sel)
	if err != nil {
		r.t.Fatal(err)
	}
	r.exec("INSERT INTO tailbox_request (pipeline, verb, selection, reason, `by`) VALUES (?, ?, ?, 'why', 'op')", r.cfg.Pipeline, string(verb),
		string(text))
	return r.obey()
}

// obey carries out all open requests, and returns the last one's result, and what its transactions did together.
func (r *baseRig) obey() (*store.RequestResult, *checkpoint.Applied) {
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
	if err := json.Unmarshal([]byte(r.text("SELECT result FROM tailbox_request ORDER BY id DESC LIMIT 1")), result); err != nil {
		r.t.Fatal(err)
	}
	if r.text("SELECT COUNT(*) FROM tailbox_request WHERE done_at IS NULL") != "0" {
		r.t.Error("a request is not done")
	}
	return result, all
}

// row inserts message i into table outbox of either shape.
func (r *baseRig) row(i int) {
	r.t.Helper()
	if r.cfg.Tables[0].Shape == "debezium" {
		r.exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (?, 'a', 'b', 'T', '{}')`, eventID(i))
		return
	}
	r.exec(`INSERT INTO outbox (id, type, topic, message_group, payload) VALUES (?, 'T', 'topic', 'g', '{}')`, eventID(i))
}

// rows shows table outbox: the ids that are there or, with a status column, id status attempts error.
func (r *baseRig) rows() string {
	r.t.Helper()
	show := "''"
	if r.cfg.Tables[0].Columns.Status != "" {
		show = `' ', status, ' ', attempts, COALESCE(CONCAT(' ', last_error), ''), IF(delivered_at IS NULL, '', ' !')`
	}
	return r.text("SELECT COALESCE(GROUP_CONCAT(CONCAT(TRIM(LEADING '0' FROM SUBSTRING_INDEX(id, '-', -1)), " + show + ") ORDER BY id SEPARATOR ', '), '') FROM outbox")
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

// reads is how many rows and index entries a store's session has read in f.
func reads(r *baseRig, on *relaySession, f func()) int64 {
	r.t.Helper()
	count := func() (n int64) {
		b := on.batch()
		b.each(func(row row) error {
			n += row.num(1)
			return nil
		}, "SHOW SESSION STATUS LIKE 'Handler_read%'")
		if err := on.send(r.ctx, b); err != nil {
			r.t.Fatal(err)
		}
		return n
	}
	before := count()
	f()
	return count() - before
}
