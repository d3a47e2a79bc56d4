package store_test

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/session"
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

// A dead letter whose parts are as large as they may be fits into the index of dead letters, which nothing can compress.
func TestLargestDeadLetter(t *testing.T) {
	t.Parallel()
	text := func(n int) string {
		b := make([]byte, n)
		_, _ = rand.Read(b) // it never fails
		return base64.StdEncoding.EncodeToString(b)[:n]
	}
	r := pgtest.NewStoreRig(t, servers.Shared(t, "17"), func(c *session.Config) { c.Pipeline = text(64) }, pgtest.Shape("tailbox", "outbox"))
	m := pgtest.Msg(1, "g")
	m.ID, m.Type, m.Table = text(outbox.MaxIndexed), text(outbox.MaxIndexed), text(260) // a quoted schema and table
	p := sourcetest.Dead(text(64), m, true)
	p.ErrorClass = text(64)
	r.Park(p)
	pgtest.Equal(t, "parked", r.Text("SELECT count(*)::text FROM tailbox_parked WHERE state = 'dead'"), "1")
}
