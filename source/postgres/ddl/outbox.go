// Package ddl writes the statements that make outbox tables, their indexes and the publication.
package ddl

import (
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/prepare"
)

// Privileges are what the relay does with the user's table.
func Privileges(t *outbox.Table) []string {
	if len(MarkColumns(t)) == 0 {
		return prepare.Privileges(t, "UPDATE ("+sqltext.Ident(t.Columns.ID)+")")
	}
	return prepare.Privileges(t, "UPDATE")
}

// MarkColumns are the columns that the relay writes, as far as the table has them.
func MarkColumns(t *outbox.Table) []string {
	if t.OnDelivered == outbox.Keep {
		return prepare.MarkColumns(&outbox.Table{Columns: outbox.Columns{Receipt: t.Columns.Receipt}})
	}
	return prepare.MarkColumns(t)
}

// tailboxColumns define the shape tailbox, and optional columns of all our other shapes.
func tailboxColumns(w outbox.Words) prepare.Columns {
	return prepare.Columns{
		{"id", "uuid PRIMARY KEY DEFAULT gen_random_uuid()"}, {"type", "text NOT NULL"}, {"topic", "text"},
		{"group", "text"}, {"key", "text"}, {"payload", "bytea NOT NULL"}, {"content_type", "text"}, {"headers", "jsonb"},
		{"tenant", "text"}, {"idempotency_key", "text UNIQUE"}, {"correlation_id", "text"}, {"priority", "integer"},
		{"available_at", "timestamptz"}, {"max_attempts", "integer"},
		{"status", "text NOT NULL DEFAULT " + sqltext.Literal(w.Pending)}, {"attempts", "integer NOT NULL DEFAULT 0"},
		{"last_attempt_at", "timestamptz"}, {"next_attempt_at", "timestamptz"}, {"last_error", "text"},
		{"delivered_at", "timestamptz"}, {"created_at", "timestamptz NOT NULL DEFAULT now()"}, {"seq", "bigserial"},
		{"failures", "integer NOT NULL DEFAULT 0"}, {"updated_at", "timestamptz"},
		{"receipt", "text"},
	}
}

// debeziumColumns are where the shape debezium differs: the types are those of Debezium's documentation.
func debeziumColumns() prepare.Columns {
	return prepare.Columns{
		{"id", "uuid PRIMARY KEY DEFAULT gen_random_uuid()"}, {"topic", "varchar(255) NOT NULL"},
		{"key", "varchar(255) NOT NULL"}, {"type", "varchar(255) NOT NULL"}, {"payload", "jsonb"}, {"group", "varchar(255)"},
	}
}

// OwnShape reports whether Init can make a table of the shape.
func OwnShape(shape string) bool {
	_, ok := shapeDDL(shape, outbox.DefaultWords())
	return ok
}

// A definition is how tables of a shape are made.
type definition struct {
	columns prepare.Columns
	// indexes that the shape brings. PendingIndex: ours on pending rows is wanted beside them.
	indexes      []indexDef
	pendingIndex bool
}

// An indexDef is an index of a shape. name is its name in the shape's first table; in another table nameFor puts that table's name in it.
type indexDef struct {
	name    string
	unique  bool
	columns []string // keys, as in prepare.Columns
	// pending: of pending rows alone. where: a condition, with %s for the first column.
	pending bool
	where   string
}

// shapeDDL finds out how tables of a shape are made; ok is false for shapes that belong to others.
func shapeDDL(shape string, words outbox.Words) (d definition, ok bool) {
	switch shape {
	case "tailbox":
		return definition{columns: tailboxColumns(words), pendingIndex: true}, true
	case "debezium":
		return definition{columns: debeziumColumns().Before(tailboxColumns(words)), pendingIndex: true}, true
	}
	if d, ok = presetDDL(shape, words); ok {
		d.columns = d.columns.Before(tailboxColumns(words))
	}
	return d, ok
}

// Script is the DDL of an outbox table, with the configured names of its columns. It is an error where tailbox does not make tables of
// the shape.
func Script(t *outbox.Table) (string, error) {
	sql, err := Outbox(t)
	if err == nil && sql == "" {
		return "", fmt.Errorf("make table %s: tailbox makes no tables of shape %q in Postgres", t.Name, t.Shape)
	}
	return sql, err
}

// Outbox is the DDL of an outbox table, with the configured names of its columns; "" for shapes that belong to
// others.
//
// Rows are deleted or updated as fast as they are inserted, so autovacuum goes by a number of rows instead of a share of
// the table. The index on pending rows is what R11 reads; it exists only if rows stay.
func Outbox(t *outbox.Table) (string, error) {
	d, ok := shapeDDL(t.Shape, columns.Words(t))
	if !ok {
		return "", nil
	}
	lines, err := d.columns.Lines(t, sqltext.Ident, "text")
	if err != nil {
		return "", err
	}
	with := "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000"
	if t.OnDelivered == outbox.Mark {
		with = "fillfactor = 70, " + with
	}
	sql := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n%s\n) WITH (%s);\n", sqltext.Table(t), strings.Join(lines, ",\n"), with)
	for i := range d.indexes {
		sql += d.indexes[i].sql(t)
	}
	if t.OnDelivered == outbox.Mark && d.pendingIndex {
		sql += fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s) WHERE %s;\n", sqltext.Ident(indexName(t.Name, "_pending")),
			sqltext.Table(t), sqltext.Ident(t.Columns.ID), catalog.Pending(t, ""))
	}
	return sql, nil
}

// sql is the statement that makes the index; "" if a column of it was taken away.
func (x *indexDef) sql(t *outbox.Table) string {
	var names []string
	for _, key := range x.columns {
		for _, name := range prepare.ColumnNames(t, key) {
			if name == "" {
				return ""
			}
			names = append(names, sqltext.Ident(name))
		}
	}
	verb, where := "CREATE INDEX", ""
	if x.unique {
		verb = "CREATE UNIQUE INDEX"
	}
	switch {
	case x.pending:
		where = " WHERE " + catalog.Pending(t, "")
	case x.where != "":
		where = " WHERE " + fmt.Sprintf(x.where, names[0])
	}
	return fmt.Sprintf("%s IF NOT EXISTS %s ON %s (%s)%s;\n", verb, sqltext.Ident(x.nameFor(t)), sqltext.Table(t), strings.Join(names, ", "), where)
}

// nameFor is the index's name in a table.
func (x *indexDef) nameFor(t *outbox.Table) string {
	shape, ok := outbox.ShapeNamed(t.Shape)
	if !ok || t.Name == shape.Tables[0] {
		return x.name
	}
	before, after, found := strings.Cut(x.name, shape.Tables[0])
	if !found {
		return indexName(t.Name, "_"+x.name)
	}
	return before + indexName(t.Name, after)
}

// SeqIndex is the index that polling goes by; "" for a table that is not ours to make.
func SeqIndex(t *outbox.Table) string {
	if !OwnShape(t.Shape) || t.Columns.Seq == "" {
		return ""
	}
	return fmt.Sprintf("CREATE UNIQUE INDEX IF NOT EXISTS %s ON %s (%s);\n", sqltext.Ident(indexName(t.Name, "_seq")), sqltext.Table(t), sqltext.Ident(t.Columns.Seq))
}

// indexName cuts the table's name, because a name has 63 bytes at most, and IF NOT EXISTS must find the index again.
func indexName(table, suffix string) string {
	if len(table) > 50 {
		table = table[:50]
	}
	return table + suffix
}
