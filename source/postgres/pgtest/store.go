package pgtest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/session"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// A StoreRig is a database with the relay's tables, and a store on it.
type StoreRig struct {
	*Rig
	Ctx context.Context
	St  *pgstore.Store
}

// NewStoreRig makes the tables of the shapes, and opens and loads a store. Each table is of a shape of ours; change may
// alter the configuration.
func NewStoreRig(t testing.TB, pg *servers.PG, change func(*session.Config), tables ...outbox.Table) *StoreRig {
	t.Helper()
	return NewStoreRigIn(t, pg, pg.NewDatabase(t), change, tables...)
}

// NewStoreRigIn is NewStoreRig in a database that exists already.
func NewStoreRigIn(t testing.TB, pg *servers.PG, db string, change func(*session.Config), tables ...outbox.Table) *StoreRig {
	t.Helper()
	cfg := session.Config{Config: source.Config{Tables: tables}}
	var statements []string
	for i := range tables {
		sql, err := ddl.Outbox(&tables[i])
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, sql)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	r := &StoreRig{Rig: newRigIn(t, pg, db, strings.Join(append(statements, migrate.TablesIn("").Script()), ";;"), cfg.Tables...), Ctx: ctx}
	if change != nil {
		change(&r.Cfg)
	}
	r.Open()
	return r
}

// Open opens a store, loads it, and closes it at the test's end.
func (r *StoreRig) Open() *checkpoint.Loaded {
	r.T.Helper()
	st, err := pgstore.Open(r.Ctx, r.Cfg)
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

// Settle settles s, and fails the test if the store cannot.
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

// ParkedRows shows tailbox_parked: sink:id state[!][@], where ! blocks and @ has a time.
func (r *StoreRig) ParkedRows() string {
	r.T.Helper()
	return r.Text(`SELECT coalesce(string_agg(sink || ':' || ltrim(split_part(message_id, '-', 5), '0') || ' ' || state
		|| CASE WHEN blocks THEN '!' ELSE '' END || CASE WHEN next_attempt_at IS NOT NULL THEN '@' ELSE '' END,
		', ' ORDER BY position, sink), '') FROM tailbox_parked`)
}

// Ask records a request as an operator would, and carries it out to its end as the relay does.
func (r *StoreRig) Ask(verb checkpoint.Verb, sel checkpoint.Selection) (*store.RequestResult, *checkpoint.Applied) {
	r.T.Helper()
	text, err := json.Marshal(sel)
	if err != nil {
		r.T.Fatal(err)
	}
	r.Exec(`INSERT INTO tailbox_request (pipeline, verb, selection, reason, "by") VALUES ($1, $2, $3, 'why', 'op')`,
		r.Cfg.Pipeline, string(verb), string(text))
	return r.Obey()
}

// Obey carries out all open requests, and returns the last one's result, and what its transactions did together.
func (r *StoreRig) Obey() (*store.RequestResult, *checkpoint.Applied) {
	r.T.Helper()
	all := sourcetest.Obey(r.Ctx, r.T, r.St)
	result := &store.RequestResult{}
	if err := json.Unmarshal([]byte(r.Text("SELECT result::text FROM tailbox_request ORDER BY id DESC LIMIT 1")), result); err != nil {
		r.T.Fatal(err)
	}
	if r.Text("SELECT count(*)::text FROM tailbox_request WHERE done_at IS NULL") != "0" {
		r.T.Error("a request is not done")
	}
	return result, all
}

// outbox is the configuration of public.outbox.
func (r *StoreRig) outbox() *outbox.Table {
	for i := range r.Cfg.Tables {
		if r.Cfg.Tables[i].Name == "outbox" {
			return &r.Cfg.Tables[i]
		}
	}
	r.T.Fatal("no table outbox is configured")
	return nil
}

// Row inserts message i into public.outbox of either shape.
func (r *StoreRig) Row(i int) {
	r.T.Helper()
	if r.outbox().Shape == "debezium" {
		r.Exec(`INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ($1, 'a', 'b', 'T', '{}')`, sourcetest.EventID(i))
		return
	}
	r.Exec(`INSERT INTO outbox (id, type, topic, message_group, payload) VALUES ($1, 'T', 'topic', 'g', '{}')`, sourcetest.EventID(i))
}

// Rows shows public.outbox: the ids that are there or, with a status column, id status attempts error.
func (r *StoreRig) Rows() string {
	r.T.Helper()
	show := "''"
	if r.outbox().Columns.Status != "" && r.Text("SELECT count(*)::text FROM pg_attribute WHERE attrelid = 'public.outbox'::regclass AND attname = 'status'") == "1" {
		show = `' ' || status || ' ' || attempts || coalesce(' ' || last_error, '') || CASE WHEN delivered_at IS NULL THEN '' ELSE ' !' END`
	}
	return r.Text(`SELECT coalesce(string_agg(ltrim(split_part(id::text, '-', 5), '0') || ` + show + `, ', ' ORDER BY id), '') FROM outbox`)
}

// Equal compares two values.
func Equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Exec runs SQL on a session.
func Exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
