package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
)

// A tableInfo is what information_schema says about a configured table now. Immutable.
type tableInfo struct {
	outbox.Table // with Schema and Name as the server has them
	engine       string
	columns      []tableColumn
}

// A tableColumn is a column as it is declared.
type tableColumn struct {
	column
	// dataType such as varchar, columnType such as varchar(20), charset "" for types that have none.
	dataType, columnType, charset string
	length                        int // in characters, or in bytes for binary types; 0 = none
}

// column finds a column by name.
func (t *tableInfo) column(name string) (tableColumn, bool) {
	for _, c := range t.columns {
		if strings.EqualFold(c.name, name) {
			return c, true
		}
	}
	return tableColumn{}, false
}

// tableName is the quoted name of a table as configured: without a schema where none is, for the connection's database.
func tableName(t *outbox.Table) string {
	if t.Schema == "" {
		return quoteIdent(t.Name)
	}
	return quoteIdent(t.Schema) + "." + quoteIdent(t.Name)
}

// describeTable looks a configured table up. A missing table is an error that matches source.ErrStop.
func describeTable(ctx context.Context, s *session, t *outbox.Table) (*tableInfo, error) {
	schema := "DATABASE()"
	if t.Schema != "" {
		schema = quoteLiteral(t.Schema)
	}
	rows, err := s.texts(ctx, `SELECT table_schema, table_name, engine, table_type FROM information_schema.tables WHERE table_schema = `+
		schema+` AND table_name = `+quoteLiteral(t.Name))
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", tableName(t), err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("look up table %s: it does not exist, or this account has no right to it (dropped or renamed?): "+
			"restore it, or change source.tables and run tailbox init: %w", tableName(t), source.ErrNoTable)
	}
	if !strings.Contains(rows[0][3], "TABLE") || strings.Contains(rows[0][3], "TEMPORARY") {
		return nil, fmt.Errorf("look up table %s: it is a %s, not a table: %w", tableName(t), strings.ToLower(rows[0][3]), source.ErrStop)
	}
	info := &tableInfo{Table: *t, engine: rows[0][2]}
	info.Schema, info.Name = rows[0][0], rows[0][1]
	if err := sameName(t, &info.Table); err != nil {
		return nil, err
	}
	return info, info.readColumns(ctx, s)
}

// sameName refuses a name that the server finds although it writes it otherwise (lower_case_table_names): the log has the server's, by which
// nothing of the configuration would be found.
func sameName(configured, found *outbox.Table) error {
	if found.Name == configured.Name && (configured.Schema == "" || found.Schema == configured.Schema) {
		return nil
	}
	return fmt.Errorf("look up table %s: at the server it is %s: write it so in source.tables: %w", tableName(configured), tableName(found), source.ErrStop)
}

func (t *tableInfo) readColumns(ctx context.Context, s *session) error {
	rows, err := s.texts(ctx, `SELECT column_name, LOWER(data_type), column_type, COALESCE(character_set_name, ''), `+
		`COALESCE(numeric_precision, 0), COALESCE(numeric_scale, 0), COALESCE(datetime_precision, 0), COALESCE(character_maximum_length, 0), `+
		`is_nullable = 'YES' AND (column_default IS NULL OR column_default = 'NULL') FROM information_schema.columns `+
		`WHERE table_schema = `+quoteLiteral(t.Schema)+` AND table_name = `+quoteLiteral(t.Name)+` ORDER BY ordinal_position`)
	if err != nil {
		return fmt.Errorf("look up columns of %s: %w", t, err)
	}
	for _, r := range rows {
		c := tableColumn{dataType: r[1], columnType: r[2], charset: r[3]}
		c.name = r[0]
		var n [4]int
		for i := range n {
			// A LONGTEXT's length does not fit everywhere; it does not matter.
			n[i], _ = strconv.Atoi(r[4+i])
		}
		c.length = n[3]
		c.describe(n[0], n[1], n[2], n[3])
		c.nullDefault = r[8] == "1"
		t.columns = append(t.columns, c)
	}
	return nil
}

// describe finds out how values of a declared type are read.
func (c *tableColumn) describe(precision, scale, fraction, length int) {
	c.unsigned = strings.Contains(c.columnType, "unsigned")
	switch c.dataType {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
		c.kind = kindInt
	case "float":
		c.kind = kindFloat
	case "double", "real":
		c.kind = kindDouble
	case "decimal", "numeric":
		c.kind, c.digits, c.scale = kindDecimal, precision, scale
	case "bit":
		c.kind, c.size = kindBit, (precision+7)/8
	case "year":
		c.kind = kindYear
	case "date":
		c.kind = kindDate
	case "time":
		c.kind, c.digits = kindTime, fraction
	case "datetime":
		c.kind, c.digits = kindDatetime, fraction
	case "timestamp":
		c.kind, c.digits = kindTimestamp, fraction
	case "json":
		c.kind = kindJSON
	case "enum", "set":
		c.kind = kindEnum
		if c.dataType == "set" {
			c.kind = kindSet
		}
		c.labels = parseLabels(c.columnType)
	case "binary":
		c.kind, c.size = kindBytes, length
		if length == 16 {
			c.kind = kindUUID
		}
	case "uuid": // MariaDB
		c.kind, c.size = kindUUID, 16
	case "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		c.kind = kindBytes
	default:
		c.kind, c.why = charsetKind(c.charset)
		if c.charset == "" {
			c.kind, c.why = kindOther, "its type "+c.dataType+" cannot be read: convert the column to a text, binary or number type"
		}
	}
	if strings.HasSuffix(c.columnType, " COMPRESSED*/") { // MariaDB's, such as text /*M!100301 COMPRESSED*/
		c.kind, c.why = kindOther, "a COMPRESSED column cannot be read from the log: ALTER TABLE … MODIFY it without COMPRESSED"
	}
}

// charsetKind tells how text in a character set is read.
func charsetKind(charset string) (k kind, why string) {
	switch charset {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return kindText, ""
	case "binary":
		return kindBytes, ""
	case "latin1":
		return kindLatin1, ""
	}
	return kindOther, "its character set " + charset + " cannot be read: ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4"
}

// parseLabels reads the labels out of a type such as enum('a','it”s').
func parseLabels(columnType string) []string {
	var labels []string
	_, rest, _ := strings.Cut(columnType, "(")
	for {
		start := strings.IndexByte(rest, '\'')
		if start < 0 {
			return labels
		}
		rest = rest[start+1:]
		var label strings.Builder
		for {
			end := strings.IndexByte(rest, '\'')
			if end < 0 {
				return labels
			}
			label.WriteString(rest[:end])
			rest = rest[end+1:]
			if !strings.HasPrefix(rest, "'") {
				break
			}
			label.WriteByte('\'')
			rest = rest[1:]
		}
		labels = append(labels, label.String())
	}
}

// wants tells whether messages are made of the column.
func (t *tableInfo) wants(name string) bool {
	for _, w := range columns.Configured(&t.Table) {
		if strings.EqualFold(w, name) {
			return true
		}
	}
	return false
}
