package store_test

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/test/servers"
)

func TestErrorText(t *testing.T) {
	t.Parallel()
	long := store.ErrorText(strings.Repeat("ä", store.MaxErrorText))
	if len(long) > store.MaxErrorText || strings.Trim(long, "ä") != "" {
		t.Errorf("long text became %d bytes, ending in %q", len(long), long[len(long)-4:])
	}
}

// Large messages that are parked, or read again from their rows, pass through in bounded pieces.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), nil, pgtest.Shape("debezium", "outbox"))
	var ps []checkpoint.Parked
	for i := 1; i <= 5; i++ {
		m := pgtest.Msg(i, "g")
		m.Payload = make([]byte, 6<<20)
		ps = append(ps, sourcetest.Follower("kafka", m))
	}
	r.Park(ps...)
	pgtest.Equal(t, "parked", r.ParkedRows(), "kafka:1 waiting!@, kafka:2 waiting!, kafka:3 waiting!, kafka:4 waiting!, kafka:5 waiting!")
	r.Exec("UPDATE tailbox_parked SET in_table = true, payload = NULL")
	r.Exec(`INSERT INTO outbox SELECT message_id::uuid, 'a', 'b', 'T', to_jsonb(repeat('x', 6000000)) FROM tailbox_parked`)
	page, more, err := r.St.Page(r.Ctx, checkpoint.Lane{Sink: "kafka", Group: "g"}, outbox.Position{}, 10, 16<<20)
	if err != nil || sourcetest.Deliveries(page) != "kafka:1 kafka:2 kafka:3" || !more {
		t.Errorf("page: %s, %v, %v", sourcetest.Deliveries(page), more, err)
	}
	for i := range page {
		if len(page[i].Message.Payload) != 6000002 || page[i].InTable {
			t.Errorf("message %d has %d bytes", i, len(page[i].Message.Payload))
		}
	}
}
