package ddl

import (
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/prepare"
)

const (
	ownUUID     = "uuid PRIMARY KEY DEFAULT gen_random_uuid()"
	counter     = "integer NOT NULL DEFAULT 0"
	timeDefault = "timestamptz NOT NULL DEFAULT now()"
)

// presetDDL are the tables of systems that had an outbox of their own, as they document them; what is different is told in
// docs/presets.
func presetDDL(shape string, w outbox.Words) (d definition, ok bool) {
	pending := " NOT NULL DEFAULT " + sqltext.Literal(w.Pending)
	switch shape {
	case "yantra":
		return definition{columns: prepare.Columns{
			{"id", ownUUID}, {"correlation_id", "uuid NOT NULL"}, {"type", "varchar(50) NOT NULL"}, {"payload", "jsonb NOT NULL"},
			{"status", "varchar(20)" + pending}, {"failures", counter}, {"max_attempts", "integer NOT NULL DEFAULT 4"},
			{"created_at", timeDefault}, {"delivered_at", "timestamptz"}, {"last_attempt_at", "timestamptz"}, {"next_attempt_at", "timestamptz"},
			{"last_error", "text"}, {"idempotency_key", "varchar(255)"}, {"tenant", "varchar(255)"},
		}, indexes: []indexDef{
			{name: "outbox_messages_idempotency_key", unique: true, columns: []string{"idempotency_key"}, where: "%s OPERATOR(pg_catalog.<>) ''"},
			{name: "idx_outbox_status_created", columns: []string{"status", "created_at"}, pending: true},
		}}, true
	case "gopipe":
		return definition{columns: prepare.Columns{
			{"id", ownUUID}, {"payload", "bytea NOT NULL"}, {"headers", "jsonb NOT NULL"}, {"created_at", timeDefault},
			{"delivered_at", "timestamptz"}, {"failures", counter}, {"last_error", "text"}, {"updated_at", timeDefault},
		}, indexes: []indexDef{
			{name: "idx_message_outbox_pending", columns: []string{"created_at"}, pending: true},
			{name: "idx_message_outbox_published", columns: []string{"delivered_at"}, where: "%s IS NOT NULL"},
		}}, true
	case "talkie":
		return definition{columns: prepare.Columns{
			{"id", ownUUID}, {"topic", "varchar(255) NOT NULL"}, {"key", "varchar(255)"}, {"payload", "json NOT NULL"}, {"headers", "jsonb"},
			{"idempotency_key", "varchar(255)"}, {"status", "varchar(20)" + pending}, {"failures", counter}, {"last_error", "text"},
			{"last_attempt_at", "timestamptz"}, {"next_attempt_at", timeDefault}, {"delivered_at", "timestamptz"}, {"created_at", timeDefault},
		}, indexes: []indexDef{
			{name: "outbox_topic_idempotency_key", unique: true, columns: []string{"topic", "idempotency_key"}},
			{name: "outbox_status_next_attempt_at", columns: []string{"status", "next_attempt_at"}},
		}}, true
	case "flowcatalyst":
		return definition{columns: prepare.Columns{
			{"id", "varchar(13) PRIMARY KEY"}, {"type", "varchar(20) NOT NULL"}, {"group", "varchar(255)"}, {"payload", "text NOT NULL"},
			{"status", "varchar(20)" + pending}, {"failures", counter}, {"created_at", timeDefault}, {"delivered_at", "timestamptz"},
			{"last_error", "text"},
		}, indexes: []indexDef{
			{name: "idx_outbox_events_status", columns: []string{"status", "group", "created_at"}},
		}}, true
	case "memo":
		return definition{columns: prepare.Columns{
			{"id", ownUUID}, {"correlation_id", "uuid NOT NULL"}, {"type", "varchar(100) NOT NULL"}, {"payload", "jsonb NOT NULL"},
			{".recipient_email", "varchar(255) NOT NULL"}, {".notification_type", "varchar(100) NOT NULL"}, {"status", "varchar(20)" + pending},
			{"failures", counter}, {"last_attempt_at", "timestamptz"}, {"delivered_at", "timestamptz"}, {"last_error", "text"},
			{"idempotency_key", "varchar(500)"}, {"created_at", timeDefault}, {"updated_at", "timestamptz"},
		}, indexes: []indexDef{
			{name: "ux_email_outbox_idempotent", unique: true, columns: []string{"idempotency_key"}},
			{name: "ix_email_outbox_status_created_at", columns: []string{"status", "created_at"}},
			{name: "ix_email_outbox_memo_id", columns: []string{"correlation_id"}},
		}}, true
	}
	return definition{}, false
}
