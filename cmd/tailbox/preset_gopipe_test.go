package main

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/test/servers"
)

const gopipeConfig = `
pipeline: gopipe
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 500ms, tables: [{shape: gopipe}]}
sinks: {nats: {kind: nats, servers: ["${NATS}"]}}
retry: {attempts: 2, schedule: [2100ms]}
admin: {listen: off}
`

// TestGopipe: rows of a table made by init, without status and type, are published to the subject of their properties, byte for byte. A row shows attempts and
// error; what is given up is in tailbox_parked, and no poll takes it up again.
func TestGopipe(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	r := newRig(t, gopipeConfig)
	r.env["NATS"] = server.URL()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	name := r.env["SLOT"]
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, AllowDirect: true, MaxMsgsPerSubject: 1,
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true})
	if err != nil {
		t.Fatal(err)
	}
	r.must("init")
	r.must("check")
	stop := r.relay()
	insert := func(subject string, payload []byte) string {
		t.Helper()
		return r.insert(`INSERT INTO message_outbox (payload, properties) VALUES ($1, jsonb_build_object('subject', $2::text, 'correlation_id', 'c-1', 'type', 'event'))
			RETURNING id::text`, payload, subject)
	}
	const show = `SELECT concat_ws(' ', attempts, published_at IS NOT NULL, last_error IS NOT NULL, updated_at > created_at) FROM message_outbox WHERE id = $1`
	payload := []byte("\x00\xff binary\n")
	first := insert(name+".orders", payload)
	r.shows("0 t f t", show, first)
	m, err := stream.GetLastMsgForSubject(t.Context(), name+".orders")
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Data) != string(payload) || m.Header.Get("id") != first || m.Header.Get("correlation_id") != "c-1" || m.Header.Get("Nats-Msg-Id") != first {
		t.Errorf("published %q with headers %v", m.Data, m.Header)
	}

	// The subject is full: the stream refuses.
	refused := insert(name+".orders", []byte("refused"))
	r.shows("1 f t t", show, refused)
	r.shows("2 f t t", show, refused)
	r.shows("dead", "SELECT state FROM tailbox_parked WHERE message_id = $1", refused)
	other := insert(name+".invoices", []byte("{}"))
	r.shows("0 t f t", show, other)
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(name+".orders")); err != nil {
		t.Fatal(err)
	}
	r.must("dead", "replay", refused)
	r.shows("t f", "SELECT concat_ws(' ', published_at IS NOT NULL, last_error IS NOT NULL) FROM message_outbox WHERE id = $1", refused)

	// What was published once is published again where published_at is taken back.
	again := r.ask("SELECT published_at FROM message_outbox WHERE id = $1", other)
	r.sql("UPDATE message_outbox SET published_at = NULL WHERE id = $1", other)
	r.shows("true", fmt.Sprintf("SELECT published_at > '%s' FROM message_outbox WHERE id = $1 AND published_at IS NOT NULL UNION ALL SELECT false LIMIT 1", again), other)
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}
