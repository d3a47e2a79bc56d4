package mysqltest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// CountProblems counts the findings that are problems.
func CountProblems(findings []check.Finding) (n int) {
	for _, f := range findings {
		if f.Level == check.Problem {
			n++
		}
	}
	return n
}

// NewAccount makes an account with what a script grants to {account}, and returns it with a configuration that connects as it.
func NewAccount(r *StoreRig, name, script string) (account string, cfg server.Config) {
	r.T.Helper()
	name += r.DB[len(r.DB)-8:]
	account = "'" + name + "'@'%'"
	r.Exec("CREATE USER " + account + " IDENTIFIED BY 'pass'")
	r.T.Cleanup(func() { r.Exec("DROP USER " + account) })
	for sql := range strings.SplitSeq(strings.ReplaceAll(script, "{account}", account), ";\n") {
		if strings.TrimSpace(sql) != "" {
			r.Exec(sql)
		}
	}
	u, err := url.Parse(r.my.SocketURL(r.DB))
	if err != nil {
		r.T.Fatal(err)
	}
	u.User = url.UserPassword(name, "pass")
	cfg = r.Cfg
	cfg.URL = u.String()
	return account, cfg
}

// storePatience bounds every wait for an event.
const storePatience = 60 * time.Second

// OnBoth runs a test on both kinds of server.
func OnBoth(t *testing.T, test func(*testing.T, *servers.My)) {
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
type opener func(context.Context, server.Config) (checkpoint.Store, error)

// A StoreRig is a database with the relay's tables, and a store on it.
type StoreRig struct {
	T      testing.TB
	my     *servers.My
	DB     string
	Ctx    context.Context
	conn   *client.Conn
	Cfg    server.Config
	opener opener
	St     checkpoint.Store
}

// NewBareRig makes a database with tables, and no store.
func NewBareRig(t testing.TB, my *servers.My, opens opener, ddl []string, tables ...outbox.Table) *StoreRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*storePatience)
	t.Cleanup(cancel)
	r := &StoreRig{T: t, my: my, DB: my.NewDatabase(t), Ctx: ctx, opener: opens}
	r.conn = r.Connect()
	for _, sql := range ddl {
		r.Exec(sql)
	}
	for i := range tables {
		tables[i].Schema = r.DB
	}
	r.Cfg = server.Config{Config: source.Config{Pipeline: "p", URL: my.SocketURL(r.DB), Tables: tables, Logger: slog.New(slog.DiscardHandler)}, Kind: my.Kind}
	return r
}

// NewStoreRig makes tables of the shapes, and opens and loads a store. Change may alter the configuration.
func NewStoreRig(t testing.TB, my *servers.My, opens opener, change func(*server.Config), tables ...outbox.Table) *StoreRig {
	t.Helper()
	ddl := RelayTables()
	for i := range tables {
		ddl = append(ddl, ShapeDDL(&tables[i]))
	}
	r := NewBareRig(t, my, opens, ddl, tables...)
	if change != nil {
		change(&r.Cfg)
	}
	r.Open()
	return r
}

// RelayTables are statements that make tailbox's own tables.
func RelayTables() (ddl []string) {
	for _, m := range schema.Migrations() {
		ddl = append(ddl, schema.Statements(m, "")...)
	}
	return append(ddl, schema.Statements(schema.Record(), "")...)
}

// ShapeDDL is a table of one of our shapes.
func ShapeDDL(t *outbox.Table) string {
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

// StoreShape is a table of a known shape.
func StoreShape(name, table string) outbox.Table {
	s, ok := outbox.ShapeNamed(name)
	if !ok {
		panic(name)
	}
	return outbox.Table{Name: table, Shape: name, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words}
}

// Connect opens a connection of an application.
func (r *StoreRig) Connect() *client.Conn {
	r.T.Helper()
	conn, err := r.my.Connect(r.Ctx, r.DB)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = conn.Close() })
	Run(r.T, conn, "SET NAMES utf8mb4, group_concat_max_len = 1000000")
	return conn
}

// Exec runs a statement on the rig's connection.
func (r *StoreRig) Exec(sql string, args ...any) {
	r.T.Helper()
	Run(r.T, r.conn, sql, args...)
}

// Run runs a statement.
func Run(t testing.TB, conn *client.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Execute(sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Text is the first value of a query; "" for NULL and for no row.
func (r *StoreRig) Text(sql string, args ...any) string {
	r.T.Helper()
	found, err := r.conn.Execute(sql, args...)
	if err != nil {
		r.T.Fatalf("%s: %v", sql, err)
	}
	if len(found.Values) == 0 || found.Values[0][0].Value() == nil {
		return ""
	}
	text, err := found.GetString(0, 0)
	if err != nil {
		r.T.Fatalf("%s: %v", sql, err)
	}
	return text
}

// Runs reports whether a session of this database is at a statement that has all these parts. The view PROCESSLIST would fail while any session is at
// a statement with a character that utf8mb3 lacks.
func (r *StoreRig) Runs(parts ...string) bool {
	r.T.Helper()
	found, err := r.conn.Execute("SHOW FULL PROCESSLIST")
	if err != nil {
		r.T.Fatal(err)
	}
	for i := range found.RowNumber() {
		db, err1 := found.GetString(i, 3)
		statement, err2 := found.GetString(i, 7)
		if err := errors.Join(err1, err2); err != nil {
			r.T.Fatal(err)
		}
		if db == r.DB && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(statement, part) }) {
			return true
		}
	}
	return false
}

// Until polls.
func (r *StoreRig) Until(what string, ok func() bool) {
	r.T.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(storePatience)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.T.Fatalf("waited for: %s", what)
		}
	}
}

// Open opens a store, loads it, and closes it at the test's end.
func (r *StoreRig) Open() *checkpoint.Loaded {
	r.T.Helper()
	st, err := r.opener(r.Ctx, r.Cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	r.St = st
	return sourcetest.Load(r.Ctx, r.T, st)
}

// Reopen ends the session and starts again.
func (r *StoreRig) Reopen() *checkpoint.Loaded {
	r.T.Helper()
	if err := r.St.Close(r.Ctx); err != nil {
		r.T.Fatal(err)
	}
	return r.Open()
}

// Settle settles, which may not fail.
func (r *StoreRig) Settle(s checkpoint.Settlement) *checkpoint.Settled {
	r.T.Helper()
	return sourcetest.Settle(r.Ctx, r.T, r.St, s)
}

// Park parks deliveries.
func (r *StoreRig) Park(ps ...checkpoint.Parked) {
	r.T.Helper()
	r.Settle(checkpoint.Settlement{Park: ps})
}

// ParkWhole parks deliveries and settles their messages' rows.
func (r *StoreRig) ParkWhole(ps ...checkpoint.Parked) *checkpoint.Settled {
	r.T.Helper()
	return r.Settle(sourcetest.Whole(ps))
}

// Due names what is due at the sinks, as sink:id, in order.
func (r *StoreRig) Due(sinks ...string) string {
	r.T.Helper()
	return sourcetest.Due(r.Ctx, r.T, r.St, sinks...)
}

const shortSQL = "TRIM(LEADING '0' FROM SUBSTRING_INDEX(message_id, '-', -1))"

// ParkedRows shows tailbox_parked: sink:id state[!][@], where ! blocks and @ has a time.
func (r *StoreRig) ParkedRows() string {
	r.T.Helper()
	return r.Text("SELECT COALESCE(GROUP_CONCAT(CONCAT(sink, ':', " + shortSQL + ", ' ', state, IF(blocks, '!', ''), " +
		"IF(next_attempt_at IS NULL, '', '@')) ORDER BY position, sink SEPARATOR ', '), '') FROM tailbox_parked")
}

// Msg is message i of a group in table outbox, at position {1, 100+i, 0}.
func (r *StoreRig) Msg(i int, group string) *outbox.Message {
	return &outbox.Message{ID: sourcetest.EventID(i), Type: "T", Topic: "topic", Group: group, Key: []byte("k"), Payload: []byte(`{"n":1}`),
		Table: r.DB + ".outbox", Position: outbox.Position{Log: 1, Commit: uint64(100 + i)}, CommitTime: time.Unix(1700000000, 0)}
}

// Ask records a request as an operator would, and carries it out to its end as the relay does.
func (r *StoreRig) Ask(verb checkpoint.Verb, sel checkpoint.Selection) (*store.RequestResult, *checkpoint.Applied) {
	r.T.Helper()
	text, err := json.Marshal(sel)
	if err != nil {
		r.T.Fatal(err)
	}
	r.Exec("INSERT INTO tailbox_request (pipeline, verb, selection, reason, `by`) VALUES (?, ?, ?, 'why', 'op')", r.Cfg.Pipeline, string(verb),
		string(text))
	return r.obey()
}

// obey carries out all open requests, and returns the last one's result, and what its transactions did together.
func (r *StoreRig) obey() (*store.RequestResult, *checkpoint.Applied) {
	r.T.Helper()
	all := sourcetest.Obey(r.Ctx, r.T, r.St)
	result := &store.RequestResult{}
	if err := json.Unmarshal([]byte(r.Text("SELECT result FROM tailbox_request ORDER BY id DESC LIMIT 1")), result); err != nil {
		r.T.Fatal(err)
	}
	if r.Text("SELECT COUNT(*) FROM tailbox_request WHERE done_at IS NULL") != "0" {
		r.T.Error("a request is not done")
	}
	return result, all
}

// Row inserts message i into table outbox of either shape.
func (r *StoreRig) Row(i int) {
	r.T.Helper()
	if r.Cfg.Tables[0].Shape == "debezium" {
		r.Exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES (?, 'a', 'b', 'T', '{}')`, sourcetest.EventID(i))
		return
	}
	r.Exec(`INSERT INTO outbox (id, type, topic, message_group, payload) VALUES (?, 'T', 'topic', 'g', '{}')`, sourcetest.EventID(i))
}

// Rows shows table outbox: the ids that are there or, with a status column, id status attempts error.
func (r *StoreRig) Rows() string {
	r.T.Helper()
	show := "''"
	if r.Cfg.Tables[0].Columns.Status != "" {
		show = `' ', status, ' ', attempts, COALESCE(CONCAT(' ', last_error), ''), IF(delivered_at IS NULL, '', ' !')`
	}
	return r.Text("SELECT COALESCE(GROUP_CONCAT(CONCAT(TRIM(LEADING '0' FROM SUBSTRING_INDEX(id, '-', -1)), " + show + ") ORDER BY id SEPARATOR ', '), '') FROM outbox")
}

// Equal compares what a test got with what it wants.
func Equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Reads is how many rows and index entries a store's session has read in f.
func Reads(r *StoreRig, on *session.Session, f func()) int64 {
	r.T.Helper()
	count := func() (n int64) {
		b := on.Batch()
		b.Each(func(row session.Row) error {
			n += row.Num(1)
			return nil
		}, "SHOW SESSION STATUS LIKE 'Handler_read%'")
		if err := on.Send(r.Ctx, b); err != nil {
			r.T.Fatal(err)
		}
		return n
	}
	before := count()
	f()
	return count() - before
}
