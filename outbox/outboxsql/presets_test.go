package outboxsql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/schema"
	ddlpg "github.com/tailbox/tailbox/source/postgres/ddl"
)

// TestPresets: tables of other systems take a message with what they demand, in one line, and a second one with the same key leaves the
// transaction usable.
func TestPresets(t *testing.T) {
	t.Parallel()
	ref := outbox.NewID()
	for _, test := range []struct {
		driver, shape, table string
		draft                outbox.Draft
		// row are columns of the row, joined.
		columns, row string
	}{
		{"pgx", "yantra", "outbox_messages", outbox.Draft{Type: "email.send", Payload: []byte(`{"to": "a"}`), CorrelationID: ref, MaxAttempts: 6,
			IdempotencyKey: outbox.Key("execution", "node")}, "event_type, status, attempts, max_attempts, idempotency_key, node_execution_id", "email.send pending 0 6 execution:node " + ref},
		{"pq", "gopipe", "message_outbox", outbox.Draft{Payload: []byte{0, 255}, Headers: map[string]string{"subject": "orders", "type": "event"}},
			"properties->>'subject', attempts, published_at", "orders 0"},
		{"pgx", "talkie", "outbox", outbox.Draft{Topic: "orders", Key: "42", Payload: []byte(`{}`), IdempotencyKey: "k"}, "topic, key, status, retry_count", "orders 42 pending 0"},
		{"pq", "flowcatalyst", "outbox_events", outbox.Draft{ID: "0HZXEQ5Y8JY5Z", Type: "EVENT", Group: "g", Payload: []byte(`{}`)}, "id, type, message_group, status, retry_count",
			"0HZXEQ5Y8JY5Z EVENT g PENDING 0"},
		{"mysql", "flowcatalyst", "outbox_events", outbox.Draft{ID: "0HZXEQ5Y8JY5Z", Type: "EVENT", Group: "g", Payload: []byte(`{}`)}, "id, type, message_group, status, retry_count",
			"0HZXEQ5Y8JY5Z EVENT g PENDING 0"},
		{"pgx", "memo", "email_outbox", outbox.Draft{Type: "memo.created", Payload: []byte(`{"subject": "s"}`), CorrelationID: ref,
			IdempotencyKey: outbox.Key(ref, "memo.created", "a@example.org"), Fields: map[string]any{"recipient_email": "a@example.org", "notification_type": "MEMO_CREATED"}},
			"event_type, recipient_email, status, retry_count", "memo.created a@example.org PENDING 0"},
	} {
		t.Run(test.shape+" "+test.driver, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.driver)
			tab, err := outbox.NewTable(test.shape, test.table)
			if err != nil {
				t.Fatal(err)
			}
			ddl := ddlpg.Script
			if r.dialect == outbox.MySQL {
				ddl = schema.TableSQL
			}
			script, err := ddl(&tab)
			if err != nil {
				t.Fatal(err)
			}
			r.exec(script)
			w := r.writer(tab, outbox.Options{})
			r.in(func(ctx context.Context, tx *sql.Tx) {
				id := r.must(w, tx, test.draft)
				if id == "" || test.draft.ID != "" && id != test.draft.ID {
					r.Errorf("id %q", id)
				}
				_, err := w.Write(ctx, tx, test.draft)
				if again := test.draft.ID != "" || test.draft.IdempotencyKey != ""; errors.Is(err, outbox.ErrDuplicate) != again || err != nil && !again {
					r.Errorf("again: %v", err)
				}
			})
			if got := r.text("SELECT CONCAT_WS(' ', " + test.columns + ") FROM " + test.table + " LIMIT 1"); got != test.row {
				r.Errorf("got %q, want %q", got, test.row)
			}
		})
	}
}
