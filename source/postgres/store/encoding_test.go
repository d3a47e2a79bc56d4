package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// TestNarrowEncoding settles texts that the database's encoding lacks: what only says something is written without them.
func TestNarrowEncoding(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	table := pgtest.Shape("tailbox", "outbox")
	table.OnDelivered, table.Columns.Status, table.Columns.Receipt = outbox.Mark, "status", "receipt"
	r := pgtest.NewStoreRigIn(t, pg, pgtest.EncodedDatabase(t, pg, "LATIN1"), nil, table)
	r.Exec("SET client_encoding = 'UTF8'")
	for i := 1; i <= 3; i++ {
		r.Row(i)
	}
	const plain = "500 ? ??... ?"

	failed := sourcetest.Head("mail", pgtest.Msg(1, "gr\u00fcn"), time.Hour)
	failed.LastError = pgtest.Foreign
	failed.Message.Headers = []outbox.Header{{Name: "h\u4e2d", Value: []byte("\U0001F4A5\"\n\u00e4")}}
	failed.Message.Fields = []outbox.Field{{Name: "f", Value: []byte("\u4e2d")}}
	undecodable := sourcetest.Dead("", pgtest.Msg(2, outbox.StandInGroup(strings.Repeat("\u00fc", 600))), true)
	undecodable.Message.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: pgtest.Foreign}
	r.ParkWhole(failed, undecodable)
	pgtest.Equal(t, "the caller's texts", failed.LastError+undecodable.Message.Fault.Reason, pgtest.Foreign+pgtest.Foreign)
	pgtest.Equal(t, "parked", r.Text("SELECT last_error || '|' || message_group FROM tailbox_parked WHERE sink = 'mail'"), plain+"|gr\u00fcn")
	pgtest.Equal(t, "fault", r.Text("SELECT fault_reason FROM tailbox_parked WHERE sink = ''"), plain)
	pgtest.Equal(t, "row", r.Text("SELECT last_error FROM outbox WHERE id = $1", sourcetest.EventID(1)), plain)

	again := sourcetest.Retried("mail", failed.Message, 2, 0)
	again.LastError = "again " + pgtest.Foreign
	r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{again}})
	ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"mail"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 {
		t.Fatalf("due: %v, %v", ps, err)
	}
	pgtest.Equal(t, "error", ps[0].LastError, "again "+plain)
	pgtest.Equal(t, "headers", ps[0].Message.Headers, failed.Message.Headers)
	pgtest.Equal(t, "fields", ps[0].Message.Fields, failed.Message.Fields)

	done := sourcetest.Delivered("mail", failed.Message)
	done.Receipt = "mail: " + pgtest.Foreign
	answered := sourcetest.RowOf(pgtest.Msg(3, ""), false)
	answered.Receipt = "hook: " + pgtest.Foreign
	r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{done}, Rows: []checkpoint.Row{answered}})
	pgtest.Equal(t, "receipts", r.Text("SELECT string_agg(receipt, ', ' ORDER BY id) FROM outbox"), "mail: "+plain+", hook: "+plain)
}

// TestNarrowRequests writes what operators say, and what becomes of it.
func TestNarrowRequests(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := pgtest.NewStoreRigIn(t, pg, pgtest.EncodedDatabase(t, pg, "LATIN1"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Exec("SET client_encoding = 'UTF8'")
	said := func(id int64) string {
		return r.Text(`SELECT reason || '|' || "by" FROM tailbox_request WHERE id = $1`, id)
	}
	for _, c := range []struct{ why, want string }{{"f\u00fcr", "f\u00fcr|postgres"}, {"\u4e2d", "?|postgres"}} {
		id, err := postgres.Config(r.Cfg).Operator().Ask(r.Ctx, &checkpoint.Request{Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"mail"}}, Reason: c.why})
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Equal(t, "request", said(id), c.want)
		if err := r.St.CloseRequest(r.Ctx, id, &store.RequestResult{Error: pgtest.Foreign, Note: "\u2026", Why: "\u4e2d"}); err != nil {
			t.Fatal(err)
		}
		result, _, err := r.St.Progress(r.Ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Equal(t, "result", *result, store.RequestResult{Error: "500 ? ??... ?", Note: "...", Why: "?"})
	}
}
