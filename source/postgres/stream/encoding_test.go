package stream_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestNarrowEnvelopes: texts of messages without a table never passed the database's encoding, and may have to be parked.
func TestNarrowEnvelopes(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := pgtest.NewStoreRigIn(t, pg, pgtest.EncodedDatabase(t, pg, "LATIN1"), nil, pgtest.Shape("tailbox", "outbox"))
	r.Cfg.Messages = "tailbox"
	r.Src = stream.New(r.Cfg)
	at := r.Establish()
	r.Exec("SET client_encoding = 'UTF8'")
	for _, content := range []string{`{"id": "\u4e2d", "type": "T", "group": "a"}`, `{"id": "2", "type": "\u4e2d", "group": "g\u4e2d"}`,
		`{"id": "3", "type": "T", "group": "g\u4e01"}`, `{"id": "4", "type": "T", "payload": {"a": "\u4e2d"}, "headers": {"h": "\u4e2d"}}`,
		`{"id": "5", "type": "T", "group": "a", "payload": "` + "\u00fc" + `"}`} {
		r.Exec("SELECT pg_logical_emit_message(true, 'tailbox', $1::text)", content)
	}
	ms, _ := r.Run(source.Start{From: at, Log: 1}).Messages(5)
	var groups []string
	for i, m := range ms {
		if (m.Fault == nil) != (i >= 3) {
			t.Errorf("message %d has fault %+v", i, m.Fault)
		}
		groups = append(groups, m.Group)
		p := sourcetest.Dead("", m, true)
		p.LastError = "no route"
		r.ParkWhole(p)
	}
	if groups[0] != "a" || groups[1] == groups[2] || !strings.HasPrefix(groups[1], "g?...") {
		t.Errorf("groups %q", groups)
	}
	pgtest.Equal(t, "parked", r.Text("SELECT count(*)::text FROM tailbox_parked"), "5")
	pgtest.Equal(t, "payload", string(ms[4].Payload), "\"\u00fc\"")
}

// TestNoEncoding: a database without an encoding holds whatever bytes were written. They come from the log and from a sweep, are parked, and
// find their row again.
func TestNoEncoding(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	table := pgtest.Shape("tailbox", "outbox")
	table.OnDelivered, table.Columns.Status = outbox.Mark, "status"
	r := pgtest.NewStoreRigIn(t, pg, pgtest.EncodedDatabase(t, pg, session.NoEncoding), nil, table)
	r.Exec("ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE text")
	r.Reopen()
	insert := func(n string) {
		r.Exec(`INSERT INTO outbox (id, type, topic, message_group, payload, headers) VALUES ($1, $2, 'topic', $3, $4, $5::text::jsonb)`,
			"\xfc"+n, "T\xfc", "gr\xfcn", []byte("\xff"+n), "{\"h\xfc\": \"\xe4\\n\"}")
	}
	want := func(n string, m *outbox.Message) {
		t.Helper()
		pgtest.Equal(t, "message", stream.Shortly(m), "\xfc"+n+"|T\xfc|topic|gr\xfcn||\xff"+n+"|h\xfc=\xe4\n")
		if m.Fault != nil {
			t.Errorf("fault %+v", m.Fault)
		}
	}
	insert("1")
	snap, sweep, err := r.Snapshot(false, false)
	if err != nil || !sweep {
		t.Fatalf("judge: %v, %v", sweep, err)
	}
	swept, _ := r.Pending(snap)
	if len(swept) != 1 {
		t.Fatalf("swept %d messages", len(swept))
	}
	want("1", swept[0])
	if err := snap.Close(r.Ctx); err != nil {
		t.Fatal(err)
	}
	insert("2")
	insert("3")
	for _, text := range []bool{false, true} {
		r.Src.SetTextOnly(text)
		x := r.Run(source.Start{From: snap.Resume(), Log: 1})
		ms, _ := x.Messages(2)
		want("2", ms[0])
		want("3", ms[1])
		if err := x.Stop(); err != nil {
			t.Fatal(err)
		}
		if text {
			parkThrough(r, ms[0], want)
		}
	}
}

// parkThrough parks message 2, has it back and delivers it.
func parkThrough(r *pgtest.StoreRig, m *outbox.Message, want func(string, *outbox.Message)) {
	r.T.Helper()
	p := sourcetest.Head("mail", m, 0)
	p.LastError = pgtest.Foreign + "\xfc"
	r.ParkWhole(p)
	ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"mail"}, Limit: 10, Bytes: 16 << 20})
	if err != nil || len(ps) != 1 {
		r.T.Fatalf("due: %v, %v", ps, err)
	}
	want("2", ps[0].Message)
	pgtest.Equal(r.T, "error", ps[0].LastError, pgtest.Foreign+"\uFFFD")
	list, _, err := postgres.Config(r.Cfg).Operator().List(r.Ctx, checkpoint.Selection{Sink: "mail", States: []checkpoint.State{checkpoint.StateRetrying}}, 10, true)
	if err != nil || len(list) != 1 {
		r.T.Fatalf("list: %v, %v", list, err)
	}
	want("2", list[0].Message)
	r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("mail", m)}})
	pgtest.Equal(r.T, "row", r.Text("SELECT status FROM outbox WHERE id = $1", m.ID), "delivered")
	pgtest.Equal(r.T, "parked", r.Text("SELECT count(*)::text FROM tailbox_parked"), "0")
}

// TestUntranslatable: WIN1252 takes bytes that are no character of it, and its server cannot send them. Reading on would fail again each time.
func TestUntranslatable(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	table := pgtest.Shape("tailbox", "outbox")
	table.OnDelivered, table.Columns.Status = outbox.Mark, "status"
	r := pgtest.NewStoreRigIn(t, pg, pgtest.EncodedDatabase(t, pg, "WIN1252"), nil, table)
	at := r.Establish()
	r.Exec("INSERT INTO outbox (type, topic, payload) VALUES ($1, 'topic', '')", "\x81")
	r.Run(source.Start{From: at, Log: 1}).Fails(source.ErrStop, "drop the replication slot")
	r.DropSlot()
	snap, _, err := r.Snapshot(false, false)
	if err != nil {
		t.Fatal(err)
	}
	err = snap.Pending(r.Ctx, 5, func(context.Context, *source.Batch) error { return nil })
	if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "correct or delete that row") {
		t.Errorf("swept with %v", err)
	}
	r.Exec("UPDATE outbox SET type = $1", "\xfc")
	r.DropSlot()
	if snap, _, err = r.Snapshot(false, false); err != nil {
		t.Fatal(err)
	}
	ms, _ := r.Pending(snap)
	pgtest.Equal(t, "type", ms[0].Type, "\u00fc")
}
