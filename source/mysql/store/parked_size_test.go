package store

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// A message is parked whatever is large in it: no statement is larger than the server takes. What no statement holds is in the user's table.
func TestParkedStatementsFit(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("tailbox", "outbox"))
		r.store().MaxPacket = 1 << 20 // as if the server took no more
		quotes := func(n int) string { return strings.Repeat("'", n) }
		beside := r.Msg(1, "g")
		beside.SetGroup(quotes(outbox.MaxGroup))
		beside.Key, beside.Topic, beside.Payload = []byte(quotes(outbox.MaxGroup)), quotes(outbox.MaxGroup), []byte(quotes(900_000))
		beside.Headers = []outbox.Header{{Name: "h", Value: []byte(quotes(outbox.MaxHeaderBytes - 1))}}
		fields := r.Msg(2, "h")
		fields.Fields = []outbox.Field{{Name: "placed", Value: []byte(quotes(900_000))}}
		fields.Payload = []byte(quotes(900_000))
		texts := r.Msg(3, "i")
		texts.CorrelationID, texts.IdempotencyKey, texts.ContentType = quotes(300_000), quotes(300_000), quotes(300_000)
		for n := 1; n <= 3; n++ {
			r.Row(n)
		}
		r.Park(sourcetest.Dead("kafka", beside, true), sourcetest.Dead("kafka", fields, true), sourcetest.Dead("kafka", texts, true))
		ps, err := parkedOf(t, r)
		if err != nil || len(ps) != 3 {
			t.Fatalf("%d are parked, %v", len(ps), err)
		}
		got := ps[0].Message
		if ps[0].InTable || !bytes.Equal(got.Payload, beside.Payload) || got.GroupText() != beside.GroupText() || len(got.Headers) != 1 {
			t.Errorf("a message with much beside its payload came back with %d bytes", len(got.Payload))
		}
		for _, p := range ps[1:] {
			if !p.InTable {
				t.Errorf("message %s is not in the table, but no statement holds it", p.Message.ID)
			}
		}
	})
}

// A large message whose id another parked message has is parked whole, and once, though it is read again.
func TestLargeUsedIDReadAgain(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("tailbox", "outbox"))
		r.store().MaxPacket = 1 << 20 // as if the server took no more
		r.Row(1)
		r.Park(sourcetest.Dead("kafka", r.Msg(1, "g"), true))
		again := r.Msg(2, "g")
		again.ID, again.Payload = r.Msg(1, "").ID, bytes.Repeat([]byte("p"), 900_000)
		for range 2 {
			r.Park(sourcetest.Dead("kafka", again, true))
		}
		if got := r.Text("SELECT GROUP_CONCAT(OCTET_LENGTH(payload) ORDER BY position) FROM tailbox_parked WHERE payload_bytes > 1000"); got != "900000" {
			t.Errorf("a payload of 900000 bytes is parked with %s", got)
		}
	})
}

func parkedOf(t *testing.T, r *storeRig) (ps []checkpoint.Parked, err error) {
	t.Helper()
	return r.store().ReadKeys(r.Ctx, []checkpoint.Key{{Sink: "kafka", Table: r.DB + ".outbox", ID: r.Msg(1, "").ID}, {Sink: "kafka", Table: r.DB + ".outbox", ID: r.Msg(2, "").ID},
		{Sink: "kafka", Table: r.DB + ".outbox", ID: r.Msg(3, "").ID}})
}
