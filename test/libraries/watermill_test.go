package libraries_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
)

// TestWatermill: messages that Watermill's publisher writes are delivered.
func TestWatermill(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "watermill.md")
	publish := func(tx pgx.Tx, payload string) error {
		publisher, err := sql.NewPublisher(sql.TxFromPgx(tx), sql.PublisherConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{}}, watermill.NopLogger{})
		if err != nil {
			return err
		}
		m := message.NewMessage(watermill.NewUUID(), []byte(payload))
		m.Metadata.Set("kind", "paid")
		return publisher.Publish("orders", m)
	}
	subscriber, err := sql.NewSubscriber(sql.BeginnerFromPgx(p.pool), sql.SubscriberConfig{SchemaAdapter: sql.DefaultPostgreSQLSchema{},
		OffsetsAdapter: sql.DefaultPostgreSQLOffsetsAdapter{}}, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	if err := subscriber.SubscribeInitialize("orders"); err != nil {
		t.Fatal(err)
	}
	if err := subscriber.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.pool.Exec(t.Context(), "CREATE UNIQUE INDEX ON watermill_orders (uuid)"); err != nil { // as the page says
		t.Fatal(err)
	}
	p.must("init")
	p.must("check")
	p.inTransaction(func(tx pgx.Tx) error { return publish(tx, `{"order":1}`) })
	p.inTransaction(func(tx pgx.Tx) error { return publish(tx, `{"order":2}`) })
	lines := p.deliver(2)
	if string(lines[0].Payload) != `{"order":1}` || string(lines[1].Payload) != `{"order":2}` {
		t.Errorf("delivered %+v", lines)
	}
}
