package schema

import (
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/prepare"
)

const timeNull = "TIMESTAMP(6) NULL DEFAULT NULL"

// uuidColumn is an id of 36 characters, which the server makes where the application does not.
const uuidColumn = "CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY DEFAULT (UUID())"

// tailboxColumns define the shape tailbox, and optional columns of the other shape that is ours. Times are TIMESTAMP, which
// mean the same whatever the session's time zone is.
func tailboxColumns(w outbox.Words) prepare.Columns {
	const textNull = "VARCHAR(255)"
	return prepare.Columns{
		{"id", uuidColumn}, {"type", "VARCHAR(255) NOT NULL"}, {"topic", textNull}, {"group", textNull}, {"key", textNull},
		{"payload", "LONGBLOB NOT NULL"}, {"content_type", textNull}, {"headers", "JSON"}, {"tenant", textNull},
		{"idempotency_key", "VARCHAR(255) UNIQUE"}, {"correlation_id", textNull}, {"priority", "INT"}, {"available_at", timeNull},
		{"max_attempts", "INT"}, {"status", "VARCHAR(32) NOT NULL DEFAULT " + quote.Text(w.Pending)}, {"attempts", "INT NOT NULL DEFAULT 0"},
		{"last_attempt_at", timeNull}, {"next_attempt_at", timeNull}, {"last_error", "TEXT"}, {"delivered_at", timeNull},
		{"created_at", "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"}, {"seq", "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE"},
		{"failures", "INT NOT NULL DEFAULT 0"}, {"updated_at", timeNull},
		{"receipt", "TEXT"},
	}
}

// debeziumColumns are where the shape debezium differs: the types are those of Debezium's documentation.
func debeziumColumns() prepare.Columns {
	return prepare.Columns{
		{"id", uuidColumn}, {"topic", "VARCHAR(255) NOT NULL"}, {"key", "VARCHAR(255) NOT NULL"}, {"type", "VARCHAR(255) NOT NULL"},
		{"payload", "JSON"}, {"group", "VARCHAR(255)"},
	}
}

// flowcatalystColumns are the client table of that platform, as it documents it, with room for payloads of any size and
// times in microseconds.
func flowcatalystColumns(w outbox.Words) prepare.Columns {
	return prepare.Columns{
		{"id", "VARCHAR(13) NOT NULL PRIMARY KEY"}, {"type", "VARCHAR(20) NOT NULL"}, {"group", "VARCHAR(255)"}, {"payload", "LONGTEXT NOT NULL"},
		{"status", "VARCHAR(20) NOT NULL DEFAULT " + quote.Text(w.Pending)}, {"failures", "INT NOT NULL DEFAULT 0"},
		{"created_at", "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"}, {"delivered_at", timeNull}, {"last_error", "TEXT"},
	}
}

// OwnShape reports whether Init can make a table of the shape.
func OwnShape(shape string) bool {
	return shape == "debezium" || shape == "tailbox" || shape == "flowcatalyst"
}

// TableSQL is the DDL of an outbox table, with the configured names of its columns. It is an error where tailbox does not make tables of
// the shape.
func TableSQL(t *outbox.Table) (string, error) {
	sql, err := OutboxSQL(t)
	if err != nil {
		return "", err
	}
	if sql == "" {
		return "", fmt.Errorf("make table %s: tailbox makes no tables of shape %q in MySQL and MariaDB", t.Name, t.Shape)
	}
	return sql + ";\n", nil
}

// OutboxSQL is the DDL of an outbox table, with the configured names of its columns; "" for shapes that belong to
// others. Texts are compared as bytes. The index on pending rows is what a
// comparison of the table with the log (R11) reads; it exists only if rows stay.
func OutboxSQL(t *outbox.Table) (string, error) {
	if !OwnShape(t.Shape) {
		return "", nil
	}
	words := columns.Words(t)
	defs := tailboxColumns(words)
	switch t.Shape {
	case "debezium":
		defs = debeziumColumns().Before(defs)
	case "flowcatalyst":
		defs = flowcatalystColumns(words).Before(defs)
	}
	lines, err := defs.Lines(t, quote.Ident, "TEXT")
	if err != nil {
		return "", err
	}
	switch {
	case t.Shape == "flowcatalyst" && t.Columns.Status != "" && len(t.Columns.Group) == 1 && t.Columns.CreatedAt != "":
		lines = append(lines, fmt.Sprintf("\tKEY %s (%s, %s, %s)", quote.Ident(clip("idx_"+t.Name, 56)+"_status"), quote.Ident(t.Columns.Status),
			quote.Ident(t.Columns.Group[0]), quote.Ident(t.Columns.CreatedAt)))
	case t.OnDelivered == outbox.Mark && t.Columns.Status != "":
		lines = append(lines, "\tKEY tailbox_pending ("+quote.Ident(t.Columns.Status)+")")
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n%s\n) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
		quote.Table(t), strings.Join(lines, ",\n")), nil
}

// clip keeps a name below the server's bound.
func clip(name string, most int) string {
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}
