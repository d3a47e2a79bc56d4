package catalog

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// A Table is what information_schema says about a configured table now. Immutable.
type Table struct {
	outbox.Table // with Schema and Name as the server has them
	Engine       string
	Cols         []Declared
}

// A Declared is a column as it is declared.
type Declared struct {
	Column
	// DataType such as varchar, columnType such as varchar(20), charset "" for types that have none.
	DataType, ColumnType, charset string
	Length                        int // in characters, or in bytes for binary types; 0 = none
	// Generated: the server computes the value from other columns, and nobody can write it.
	Generated bool
	// Touched: the server sets it whenever the row changes.
	Touched bool
}

// IsGenerated reports whether extra, what information_schema.columns says besides the type, is that of a generated column. A default that is an
// expression is called DEFAULT_GENERATED.
func IsGenerated(extra string) bool { return strings.Contains(strings.ToUpper(extra), " GENERATED") }

// IsTouched reports whether extra is that of a column that the server sets whenever the row changes.
func IsTouched(extra string) bool { return strings.Contains(strings.ToUpper(extra), "ON UPDATE") }

// Column finds a column by name.
func (t *Table) Column(name string) (Declared, bool) {
	for _, c := range t.Cols {
		if strings.EqualFold(c.Name, name) {
			return c, true
		}
	}
	return Declared{}, false
}

// Unfound returns an error that matches source.ErrStop if the configuration names a column for the relay to write that the table has not.
func (t *Table) Unfound() error {
	names := make([]string, len(t.Cols))
	for i := range t.Cols {
		names[i] = t.Cols[i].Name
	}
	return columns.Unfound(&t.Table, names, strings.EqualFold)
}

// Describe looks a configured table up. A missing table is an error that matches source.ErrStop.
func Describe(ctx context.Context, s *server.Conn, t *outbox.Table) (*Table, error) {
	schema := "DATABASE()"
	if t.Schema != "" {
		schema = quote.Text(t.Schema)
	}
	rows, err := s.Texts(ctx, `SELECT table_schema, table_name, engine, table_type FROM information_schema.tables WHERE table_schema = `+
		schema+` AND table_name = `+quote.Text(t.Name))
	if err != nil {
		return nil, fmt.Errorf("look up table %s: %w", quote.Table(t), err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("look up table %s: it does not exist, or this account has no right to it (dropped or renamed?): "+
			"restore it, or change source.tables and run tailbox init: %w", quote.Table(t), source.ErrNoTable)
	}
	if !strings.Contains(rows[0][3], "TABLE") || strings.Contains(rows[0][3], "TEMPORARY") {
		return nil, fmt.Errorf("look up table %s: it is a %s, not a table: %w", quote.Table(t), strings.ToLower(rows[0][3]), source.ErrStop)
	}
	info := &Table{Table: *t, Engine: rows[0][2]}
	info.Schema, info.Name = rows[0][0], rows[0][1]
	if err := SameName(t, &info.Table); err != nil {
		return nil, err
	}
	return info, info.readColumns(ctx, s)
}

// SameName refuses a name that the server finds although it writes it otherwise (lower_case_table_names): the log has the server's, by which
// nothing of the configuration would be found.
func SameName(configured, found *outbox.Table) error {
	if found.Name == configured.Name && (configured.Schema == "" || found.Schema == configured.Schema) {
		return nil
	}
	return fmt.Errorf("look up table %s: at the server it is %s: write it so in source.tables: %w", quote.Table(configured), quote.Table(found), source.ErrStop)
}

func (t *Table) readColumns(ctx context.Context, s *server.Conn) error {
	rows, err := s.Texts(ctx, `SELECT column_name, LOWER(data_type), column_type, COALESCE(character_set_name, ''), `+
		`COALESCE(numeric_precision, 0), COALESCE(numeric_scale, 0), COALESCE(datetime_precision, 0), COALESCE(character_maximum_length, 0), `+
		`is_nullable = 'YES' AND (column_default IS NULL OR column_default = 'NULL'), extra FROM information_schema.columns `+
		`WHERE table_schema = `+quote.Text(t.Schema)+` AND table_name = `+quote.Text(t.Name)+` ORDER BY ordinal_position`)
	if err != nil {
		return fmt.Errorf("look up columns of %s: %w", t, err)
	}
	for _, r := range rows {
		c := Declared{DataType: r[1], ColumnType: r[2], charset: r[3]}
		c.Name = r[0]
		var n [4]int
		for i := range n {
			// A LONGTEXT's length does not fit everywhere; it does not matter.
			n[i], _ = strconv.Atoi(r[4+i])
		}
		c.Length = n[3]
		c.describe(n[0], n[1], n[2], n[3])
		c.NullDefault, c.Generated, c.Touched = r[8] == "1", IsGenerated(r[9]), IsTouched(r[9])
		t.Cols = append(t.Cols, c)
	}
	return nil
}

// describe finds out how values of a declared type are read.
func (c *Declared) describe(precision, scale, fraction, length int) {
	c.Unsigned = strings.Contains(c.ColumnType, "unsigned")
	switch c.DataType {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
		c.Kind = KindInt
	case "float":
		c.Kind = KindFloat
	case "double", "real":
		c.Kind = KindDouble
	case "decimal", "numeric":
		c.Kind, c.Digits, c.Scale = KindDecimal, precision, scale
	case "bit":
		c.Kind, c.Bytes = KindBit, (precision+7)/8
	case "year":
		c.Kind = KindYear
	case "date":
		c.Kind = KindDate
	case "time":
		c.Kind, c.Digits = KindTime, fraction
	case "datetime":
		c.Kind, c.Digits = KindDatetime, fraction
	case "timestamp":
		c.Kind, c.Digits = KindTimestamp, fraction
	case "json":
		c.Kind = KindJSON
	case "enum", "set":
		c.Kind = KindEnum
		if c.DataType == "set" {
			c.Kind = KindSet
		}
		c.Labels = parseLabels(c.ColumnType)
	case "binary":
		c.Kind, c.Bytes = KindBytes, length
		if length == 16 {
			c.Kind = KindUUID
		}
	case "uuid": // MariaDB
		c.Kind, c.Bytes = KindUUID, 16
	case "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		c.Kind = KindBytes
	default:
		c.Kind, c.Why = CharsetKind(c.charset)
		if c.charset == "" {
			c.Kind, c.Why = KindOther, "its type "+c.DataType+" cannot be read: convert the column to a text, binary or number type"
		}
	}
	if strings.HasSuffix(c.ColumnType, " COMPRESSED*/") { // MariaDB's, such as text /*M!100301 COMPRESSED*/
		c.Kind, c.Why = KindOther, "a COMPRESSED column cannot be read from the log: ALTER TABLE … MODIFY it without COMPRESSED"
	}
}

// CharsetKind tells how text in a character set is read.
func CharsetKind(charset string) (k Kind, why string) {
	switch charset {
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return KindText, ""
	case "binary":
		return KindBytes, ""
	case "latin1":
		return KindLatin1, ""
	}
	return KindOther, "its character set " + charset + " cannot be read: ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4"
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

// Wants reports whether messages are made of the column.
func (t *Table) Wants(name string) bool {
	for _, w := range columns.Configured(&t.Table) {
		if strings.EqualFold(w, name) {
			return true
		}
	}
	return false
}
