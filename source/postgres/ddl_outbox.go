package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// quoteTable is the table's name for SQL; Schema "" leaves it to the search path.
func quoteTable(t *outbox.Table) string {
	if t.Schema == "" {
		return quoteIdent(t.Name)
	}
	return quoteIdent(t.Schema) + "." + quoteIdent(t.Name)
}

// hasView tells whether the table has a status column that shows what becomes of a parked message.
func hasView(t *outbox.Table) bool { return t.OnDelivered != outbox.Keep && t.Columns.Status != "" }

// tablePrivileges are what the relay does with the user's table. SELECT is for sweeps and for comparing it with the log.
func tablePrivileges(t *outbox.Table) []string {
	switch t.OnDelivered {
	case outbox.Delete:
		if len(markColumns(t)) == 0 {
			return []string{"SELECT", "UPDATE (" + quoteIdent(t.Columns.ID) + ")", "DELETE"}
		}
		return []string{"SELECT", "UPDATE", "DELETE"}
	case outbox.Mark:
		if t.Retention > 0 {
			return []string{"SELECT", "UPDATE", "DELETE"}
		}
		return []string{"SELECT", "UPDATE"}
	}
	if t.Columns.Receipt != "" {
		return []string{"SELECT", "UPDATE"}
	}
	return []string{"SELECT"}
}

// markColumns are the columns that the relay writes, as far as the table has them.
func markColumns(t *outbox.Table) (names []string) {
	c := &t.Columns
	all := []string{c.Status, c.Attempts, c.LastAttemptAt, c.NextAttemptAt, c.LastError, c.DeliveredAt, c.Failures, c.UpdatedAt, c.Receipt}
	if t.OnDelivered == outbox.Keep {
		all = []string{c.Receipt}
	}
	for _, name := range all {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// A column of an outbox table: its configuration key, or "." and its name for one that the relay has no use for, and its
// definition.
type columnDef struct{ key, def string }

// tailboxColumns define the shape tailbox, and optional columns of the other shape that is ours.
func tailboxColumns(w outbox.Words) []columnDef {
	return []columnDef{
		{"id", "uuid PRIMARY KEY DEFAULT gen_random_uuid()"}, {"type", "text NOT NULL"}, {"topic", "text"},
		{"group", "text"}, {"key", "text"}, {"payload", "bytea NOT NULL"}, {"content_type", "text"}, {"headers", "jsonb"},
		{"tenant", "text"}, {"idempotency_key", "text UNIQUE"}, {"correlation_id", "text"}, {"priority", "integer"},
		{"available_at", "timestamptz"}, {"max_attempts", "integer"},
		{"status", "text NOT NULL DEFAULT " + quoteLiteral(w.Pending)}, {"attempts", "integer NOT NULL DEFAULT 0"},
		{"last_attempt_at", "timestamptz"}, {"next_attempt_at", "timestamptz"}, {"last_error", "text"},
		{"delivered_at", "timestamptz"}, {"created_at", "timestamptz NOT NULL DEFAULT now()"}, {"seq", "bigserial"},
		{"failures", "integer NOT NULL DEFAULT 0"}, {"updated_at", "timestamptz"},
		{"receipt", "text"},
	}
}

// debeziumColumns are where the shape debezium differs: the types are those of Debezium's documentation.
func debeziumColumns() []columnDef {
	return []columnDef{
		{"id", "uuid PRIMARY KEY DEFAULT gen_random_uuid()"}, {"topic", "varchar(255) NOT NULL"},
		{"key", "varchar(255) NOT NULL"}, {"type", "varchar(255) NOT NULL"}, {"payload", "jsonb"}, {"group", "varchar(255)"},
	}
}

// ownShape tells whether Init can make a table of the shape.
func ownShape(shape string) bool {
	_, ok := shapeDDL(shape, outbox.DefaultWords())
	return ok
}

// A ddl is how tables of a shape are made.
type ddl struct {
	columns []columnDef
	// indexes that the shape brings. pendingIndex: ours on pending rows is wanted beside them.
	indexes      []indexDef
	pendingIndex bool
}

// An indexDef is an index of a shape. Its name is the one in the shape's first table; that of another table has that one's name.
type indexDef struct {
	name    string
	unique  bool
	columns []string // as in columnDef
	// pending: of pending rows alone. where: a condition, with %s for the first column.
	pending bool
	where   string
}

// shapeDDL finds out how tables of a shape are made; ok is false for shapes that belong to others.
func shapeDDL(shape string, words outbox.Words) (d ddl, ok bool) {
	switch shape {
	case "tailbox":
		return ddl{columns: tailboxColumns(words), pendingIndex: true}, true
	case "debezium":
		return ddl{columns: mergeDefs(debeziumColumns(), tailboxColumns(words)), pendingIndex: true}, true
	}
	if d, ok = presetDDL(shape, words); ok {
		d.columns = mergeDefs(d.columns, tailboxColumns(words))
	}
	return d, ok
}

// TableSQL is the DDL of an outbox table, with the configured names of its columns. It is an error where tailbox does not make tables of
// the shape.
func TableSQL(t *outbox.Table) (string, error) {
	sql, err := outboxSQL(t)
	if err == nil && sql == "" {
		return "", fmt.Errorf("make table %s: tailbox makes no tables of shape %q in Postgres", t.Name, t.Shape)
	}
	return sql, err
}

// outboxSQL is the DDL of an outbox table, with the configured names of its columns; "" for shapes that belong to
// others. A column that serves twice is defined once.
//
// Rows are deleted or updated as fast as they are inserted, so autovacuum goes by a number of rows instead of a share of
// the table. The index on pending rows is what R11 reads; it exists only where rows stay.
func outboxSQL(t *outbox.Table) (string, error) {
	words := t.Words
	if words.Pending == "" {
		words = outbox.DefaultWords()
	}
	d, ok := shapeDDL(t.Shape, words)
	if !ok {
		return "", nil
	}
	var lines, seen []string
	for _, def := range d.columns {
		for _, name := range configuredNames(t, def.key) {
			if name != "" && !slices.Contains(seen, name) {
				seen = append(seen, name)
				lines = append(lines, "\t"+quoteIdent(name)+" "+def.def)
			}
		}
	}
	for _, name := range t.Fields {
		if !slices.Contains(seen, name) {
			seen = append(seen, name)
			lines = append(lines, "\t"+quoteIdent(name)+" text")
		}
	}
	if t.Columns.ID == "" || t.Columns.Payload == "" {
		return "", fmt.Errorf("make table %s: shape %s needs columns id and payload", t.Name, t.Shape)
	}
	with := "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000"
	if t.OnDelivered == outbox.Mark {
		with = "fillfactor = 70, " + with
	}
	sql := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n%s\n) WITH (%s);\n", quoteTable(t), strings.Join(lines, ",\n"), with)
	for i := range d.indexes {
		sql += d.indexes[i].sql(t)
	}
	if t.OnDelivered == outbox.Mark && d.pendingIndex {
		sql += fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (%s) WHERE %s;\n", quoteIdent(indexName(t.Name, "_pending")),
			quoteTable(t), quoteIdent(t.Columns.ID), pendingCondition(t, ""))
	}
	return sql, nil
}

// sql is the statement that makes the index; "" where a column of it was taken away.
func (x *indexDef) sql(t *outbox.Table) string {
	var names []string
	for _, key := range x.columns {
		for _, name := range configuredNames(t, key) {
			if name == "" {
				return ""
			}
			names = append(names, quoteIdent(name))
		}
	}
	verb, where := "CREATE INDEX", ""
	if x.unique {
		verb = "CREATE UNIQUE INDEX"
	}
	switch {
	case x.pending:
		where = " WHERE " + pendingCondition(t, "")
	case x.where != "":
		where = " WHERE " + fmt.Sprintf(x.where, names[0])
	}
	return fmt.Sprintf("%s IF NOT EXISTS %s ON %s (%s)%s;\n", verb, quoteIdent(x.nameFor(t)), quoteTable(t), strings.Join(names, ", "), where)
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

// seqIndexSQL is the index that polling goes by; "" for a table that is not ours to make.
func seqIndexSQL(t *outbox.Table) string {
	if !ownShape(t.Shape) || t.Columns.Seq == "" {
		return ""
	}
	return fmt.Sprintf("CREATE UNIQUE INDEX IF NOT EXISTS %s ON %s (%s);\n", quoteIdent(indexName(t.Name, "_seq")), quoteTable(t), quoteIdent(t.Columns.Seq))
}

// indexName keeps below the 63 bytes of a name, so that IF NOT EXISTS finds what it made.
func indexName(table, suffix string) string {
	if len(table) > 50 {
		table = table[:50]
	}
	return table + suffix
}

// configuredNames are the names of a column of the DDL.
func configuredNames(t *outbox.Table, key string) []string {
	if name, ok := strings.CutPrefix(key, "."); ok {
		return []string{name}
	}
	if key == "group" {
		return t.Columns.Group
	}
	return []string{*t.Columns.Field(key)}
}

// mergeDefs puts first before those of rest that first does not define.
func mergeDefs(first, rest []columnDef) []columnDef {
	for _, d := range rest {
		if !slices.ContainsFunc(first, func(f columnDef) bool { return f.key == d.key }) {
			first = append(first, d)
		}
	}
	return first
}

// pendingCondition is the condition under which a row waits for its first delivery, with its columns qualified by
// prefix; "true" where no column tells, and every row does. It means the same as tableInfo's, but leaves NULL to the caller
// that knows whether the status can be NULL. Words stand in it as literals, not parameters, so that an index on pending
// rows can be used.
func pendingCondition(t *outbox.Table, prefix string) string {
	switch {
	case t.Columns.Status != "":
		return isPending(t, prefix+quoteIdent(t.Columns.Status))
	case t.Columns.DeliveredAt != "":
		return prefix + quoteIdent(t.Columns.DeliveredAt) + " IS NULL"
	default:
		return "true"
	}
}

// isPending is the condition that a status is a word for pending.
func isPending(t *outbox.Table, column string) string {
	words := t.PendingWords()
	conds := make([]string, len(words))
	for i, word := range words { // a list would have to be of the column's type
		conds[i] = column + equals + quoteLiteral(word)
	}
	if len(conds) == 1 {
		return conds[0]
	}
	return "(" + strings.Join(conds, " OR ") + ")"
}

// publicationSQL makes the publication where it is missing, and adds tables that it lacks. Only inserts are published:
// nothing else is wanted, and with updates a row filter that the replica identity does not cover would make every
// UPDATE of the application fail. Partitions are published as their root. A comment tells whose it is.
func publicationSQL(cfg Config) string {
	pub := quoteLiteral(cfg.Publication)
	var create, add strings.Builder
	for i := range cfg.Tables {
		t := quoteTable(&cfg.Tables[i])
		if i > 0 {
			create.WriteString(", ")
		}
		create.WriteString(t)
		fmt.Fprintf(&add, `	IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid OPERATOR(pg_catalog.=) r.prpubid
		WHERE p.pubname OPERATOR(pg_catalog.=) %s AND r.prrelid OPERATOR(pg_catalog.=) %s::pg_catalog.regclass) THEN
		ALTER PUBLICATION %s ADD TABLE %s;
	END IF;
`, pub, quoteLiteral(t), quoteIdent(cfg.Publication), t)
	}
	return fmt.Sprintf(`DO $tailbox$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname OPERATOR(pg_catalog.=) %s) THEN
		CREATE PUBLICATION %s FOR TABLE %s WITH (publish = 'insert', publish_via_partition_root = true);
		COMMENT ON PUBLICATION %[2]s IS %[5]s;
	END IF;
%[4]sEND
$tailbox$;
`, pub, quoteIdent(cfg.Publication), create.String(), add.String(), quoteLiteral(publicationMark(cfg)))
}
