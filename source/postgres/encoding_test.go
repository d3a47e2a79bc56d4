package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

// encodedDatabase is a database of an encoding that is not the server's usual one.
func encodedDatabase(t testing.TB, pg *servers.PG, enc encoding) string {
	t.Helper()
	name := pg.NewDatabase(t)
	for _, sql := range []string{"DROP DATABASE " + name,
		"CREATE DATABASE " + name + " ENCODING '" + string(enc) + "' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"} {
		if err := pg.Exec(context.Background(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// Texts of endpoints, and our own, that LATIN1 lacks: an emoji, Chinese, what stands for bad bytes, an ellipsis.
const foreign = "500 \U0001F4A5 \u4e2d\uFFFD\u2026 \u00e4"

// TestNarrowEncoding settles texts that the database's encoding lacks: what only says something is written without them.
func TestNarrowEncoding(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	table := shape("tailbox", "outbox")
	table.OnDelivered, table.Columns.Status, table.Columns.Receipt = outbox.Mark, "status", "receipt"
	r := newStoreRigIn(t, pg, encodedDatabase(t, pg, "LATIN1"), nil, table)
	r.exec("SET client_encoding = 'UTF8'")
	for i := 1; i <= 3; i++ {
		r.row(i)
	}
	const plain = "500 ? ??... ?"

	failed := head("mail", msg(1, "gr\u00fcn"), time.Hour)
	failed.LastError = foreign
	failed.Message.Headers = []outbox.Header{{Name: "h\u4e2d", Value: []byte("\U0001F4A5\"\n\u00e4")}}
	failed.Message.Fields = []outbox.Field{{Name: "f", Value: []byte("\u4e2d")}}
	undecodable := dead("", msg(2, outbox.StandInGroup(strings.Repeat("\u00fc", 600))), true)
	undecodable.Message.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: foreign}
	r.parkWhole(failed, undecodable)
	equal(t, "the caller's texts", failed.LastError+undecodable.Message.Fault.Reason, foreign+foreign)
	equal(t, "parked", r.text("SELECT last_error || '|' || message_group FROM tailbox_parked WHERE sink = 'mail'"), plain+"|gr\u00fcn")
	equal(t, "fault", r.text("SELECT fault_reason FROM tailbox_parked WHERE sink = ''"), plain)
	equal(t, "row", r.text("SELECT last_error FROM outbox WHERE id = $1", eventID(1)), plain)

	again := retried("mail", failed.Message, 2, 0)
	again.LastError = "again " + foreign
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{again}})
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"mail"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 {
		t.Fatalf("due: %v, %v", ps, err)
	}
	equal(t, "error", ps[0].LastError, "again "+plain)
	equal(t, "headers", ps[0].Message.Headers, failed.Message.Headers)
	equal(t, "fields", ps[0].Message.Fields, failed.Message.Fields)

	done := delivered("mail", failed.Message)
	done.Receipt = "mail: " + foreign
	answered := rowOf(msg(3, ""), false)
	answered.Receipt = "hook: " + foreign
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{done}, Rows: []checkpoint.Row{answered}})
	equal(t, "receipts", r.text("SELECT string_agg(receipt, ', ' ORDER BY id) FROM outbox"), "mail: "+plain+", hook: "+plain)
}

// TestNarrowRequests writes what operators say, and what becomes of it.
func TestNarrowRequests(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := newStoreRigIn(t, pg, encodedDatabase(t, pg, "LATIN1"), nil, shape("tailbox", "outbox"))
	r.exec("SET client_encoding = 'UTF8'")
	said := func(id int64) string {
		return r.text(`SELECT reason || '|' || "by" FROM tailbox_request WHERE id = $1`, id)
	}
	for _, c := range []struct{ why, want string }{{"f\u00fcr", "f\u00fcr|postgres"}, {"\u4e2d", "?|postgres"}} {
		id, err := r.cfg.Operator().Ask(r.ctx, &checkpoint.Request{Verb: checkpoint.VerbPause, Selection: checkpoint.Selection{Sinks: []string{"mail"}}, Reason: c.why})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "request", said(id), c.want)
		if err := r.st.CloseRequest(r.ctx, id, &store.RequestResult{Error: foreign, Note: "\u2026", Why: "\u4e2d"}); err != nil {
			t.Fatal(err)
		}
		result, _, err := r.st.Progress(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "result", *result, store.RequestResult{Error: "500 ? ??... ?", Note: "...", Why: "?"})
	}
}

// TestNarrowEnvelopes: texts of messages without a table never passed the database's encoding, and may have to be parked.
func TestNarrowEnvelopes(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := newStoreRigIn(t, pg, encodedDatabase(t, pg, "LATIN1"), nil, shape("tailbox", "outbox"))
	r.cfg.Messages = "tailbox"
	r.src = New(r.cfg)
	at := r.establish()
	r.exec("SET client_encoding = 'UTF8'")
	for _, content := range []string{`{"id": "\u4e2d", "type": "T", "group": "a"}`, `{"id": "2", "type": "\u4e2d", "group": "g\u4e2d"}`,
		`{"id": "3", "type": "T", "group": "g\u4e01"}`, `{"id": "4", "type": "T", "payload": {"a": "\u4e2d"}, "headers": {"h": "\u4e2d"}}`,
		`{"id": "5", "type": "T", "group": "a", "payload": "` + "\u00fc" + `"}`} {
		r.exec("SELECT pg_logical_emit_message(true, 'tailbox', $1::text)", content)
	}
	ms, _ := r.run(source.Start{From: at, Log: 1}).messages(5)
	var groups []string
	for i, m := range ms {
		if (m.Fault == nil) != (i >= 3) {
			t.Errorf("message %d has fault %+v", i, m.Fault)
		}
		groups = append(groups, m.Group)
		p := dead("", m, true)
		p.LastError = "no route"
		r.parkWhole(p)
	}
	if groups[0] != "a" || groups[1] == groups[2] || !strings.HasPrefix(groups[1], "g?...") {
		t.Errorf("groups %q", groups)
	}
	equal(t, "parked", r.text("SELECT count(*)::text FROM tailbox_parked"), "5")
	equal(t, "payload", string(ms[4].Payload), "\"\u00fc\"")
}

// TestNoEncoding: a database without an encoding holds whatever bytes were written. They come from the log and from a sweep, are parked, and
// find their row again.
func TestNoEncoding(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	table := shape("tailbox", "outbox")
	table.OnDelivered, table.Columns.Status = outbox.Mark, "status"
	r := newStoreRigIn(t, pg, encodedDatabase(t, pg, encodingNone), nil, table)
	r.exec("ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE text")
	r.reopen()
	insert := func(n string) {
		r.exec(`INSERT INTO outbox (id, type, topic, message_group, payload, headers) VALUES ($1, $2, 'topic', $3, $4, $5::text::jsonb)`,
			"\xfc"+n, "T\xfc", "gr\xfcn", []byte("\xff"+n), "{\"h\xfc\": \"\xe4\\n\"}")
	}
	want := func(n string, m *outbox.Message) {
		t.Helper()
		equal(t, "message", shortly(m), "\xfc"+n+"|T\xfc|topic|gr\xfcn||\xff"+n+"|h\xfc=\xe4\n")
		if m.Fault != nil {
			t.Errorf("fault %+v", m.Fault)
		}
	}
	insert("1")
	snap, sweep, err := r.snapshot(false, false)
	if err != nil || !sweep {
		t.Fatalf("judge: %v, %v", sweep, err)
	}
	swept, _ := r.pending(snap)
	if len(swept) != 1 {
		t.Fatalf("swept %d messages", len(swept))
	}
	want("1", swept[0])
	if err := snap.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	insert("2")
	insert("3")
	for _, text := range []bool{false, true} {
		r.src.textOnly.Store(text)
		x := r.run(source.Start{From: snap.Resume(), Log: 1})
		ms, _ := x.messages(2)
		want("2", ms[0])
		want("3", ms[1])
		if err := x.stop(); err != nil {
			t.Fatal(err)
		}
		if text {
			r.parkThrough(ms[0], want)
		}
	}
}

// parkThrough parks message 2, has it back and delivers it.
func (r *storeRig) parkThrough(m *outbox.Message, want func(string, *outbox.Message)) {
	r.t.Helper()
	p := head("mail", m, 0)
	p.LastError = foreign + "\xfc"
	r.parkWhole(p)
	ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"mail"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 {
		r.t.Fatalf("due: %v, %v", ps, err)
	}
	want("2", ps[0].Message)
	equal(r.t, "error", ps[0].LastError, foreign+"\uFFFD")
	list, _, err := r.cfg.Operator().List(r.ctx, checkpoint.Selection{Sink: "mail", States: []checkpoint.State{checkpoint.StateRetrying}}, 10, true)
	if err != nil || len(list) != 1 {
		r.t.Fatalf("list: %v, %v", list, err)
	}
	want("2", list[0].Message)
	r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("mail", m)}})
	equal(r.t, "row", r.text("SELECT status FROM outbox WHERE id = $1", m.ID), "delivered")
	equal(r.t, "parked", r.text("SELECT count(*)::text FROM tailbox_parked"), "0")
}

// TestUntranslatable: WIN1252 takes bytes that are no character of it, and its server cannot send them. Reading on would fail again each time.
func TestUntranslatable(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	table := shape("tailbox", "outbox")
	table.OnDelivered, table.Columns.Status = outbox.Mark, "status"
	r := newStoreRigIn(t, pg, encodedDatabase(t, pg, "WIN1252"), nil, table)
	at := r.establish()
	r.exec("INSERT INTO outbox (type, topic, payload) VALUES ($1, 'topic', '')", "\x81")
	r.run(source.Start{From: at, Log: 1}).fails(source.ErrStop, "drop the replication slot")
	r.dropSlot()
	snap, _, err := r.snapshot(false, false)
	if err != nil {
		t.Fatal(err)
	}
	err = snap.Pending(r.ctx, 5, func(context.Context, *source.Batch) error { return nil })
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "correct or delete that row") {
		t.Errorf("swept with %v", err)
	}
	r.exec("UPDATE outbox SET type = $1", "\xfc")
	r.dropSlot()
	if snap, _, err = r.snapshot(false, false); err != nil {
		t.Fatal(err)
	}
	ms, _ := r.pending(snap)
	equal(t, "type", ms[0].Type, "\u00fc")
}
