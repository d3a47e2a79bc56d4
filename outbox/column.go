package outbox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A ColumnKind is what a writer has to know of a column's type.
type ColumnKind uint8

// Kinds of columns.
const (
	// KindOther: a type that takes text, and checks it in its own way, such as an enum.
	KindOther ColumnKind = iota
	KindText
	KindBytes
	// KindJSON keeps the text; KindJSONB (Postgres' jsonb) and MySQL's JSON do not.
	KindJSON
	KindJSONB
	KindUUID
	// KindBinaryUUID is a UUID in 16 bytes.
	KindBinaryUUID
	KindInt
	KindBool
	// KindTime is a point in time; KindLocalTime has no zone, and is UTC by agreement.
	KindTime
	KindLocalTime
)

// A Column of a table, as the database's catalog describes it.
type Column struct {
	Name string
	Kind ColumnKind
	// MaxChars and MaxBytes bound a text or bytes; 0 = no bound of its own.
	MaxChars, MaxBytes int
	// Min and Max bound a KindInt.
	Min, Max int64
	// Charset of MySQL's texts; "" takes all of Unicode.
	Charset string
	NotNull bool
	// Default: the database has a value where none is written. AutoIncrement (MySQL): it is a number, and told to the writer.
	Default, AutoIncrement bool
	// Generated: it cannot be written.
	Generated bool
	// Unique are the columns of a unique index that this one is in, itself among them; none if there is no such index.
	Unique []string
}

// A Dialect is the SQL of a kind of database.
type Dialect string

// Dialects.
const (
	Postgres Dialect = "postgres"
	// MySQL is MariaDB's as well.
	MySQL Dialect = "mysql"
)

// unit separates names in one value of a catalog query; no name has it.
const unit = "\x1f"

// postgresCatalog has a row of ten texts a column. Of a domain it tells the type below it.
const postgresCatalog = `SELECT a.attname::text, b.typname::text, '', (CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END)::text, '',
 (CASE WHEN a.attnotnull OR t.typnotnull THEN 1 ELSE 0 END)::text,
 (CASE WHEN a.atthasdef OR a.attidentity <> '' OR t.typdefault IS NOT NULL THEN 1 ELSE 0 END)::text,
 (CASE WHEN a.attgenerated <> '' OR a.attidentity = 'a' THEN 1 ELSE 0 END)::text,
 coalesce((SELECT string_agg(k.attname::text, chr(31)) FROM pg_attribute k WHERE k.attrelid = a.attrelid AND k.attnum = ANY (
  (SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1] FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
   AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) ORDER BY i.indnkeyatts, i.indexrelid LIMIT 1)::int2[])), ''), '0'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = to_regclass($1::text)::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

// mysqlCatalog is the same for MySQL and MariaDB.
const mysqlCatalog = `SELECT c.column_name, LOWER(c.data_type), LOWER(c.column_type), COALESCE(c.character_maximum_length, 0), COALESCE(c.character_set_name, ''),
 IF(c.is_nullable = 'YES', 0, 1), IF(COALESCE(c.column_default, 'NULL') <> 'NULL' OR c.extra LIKE '%auto_increment%' OR c.extra LIKE '%DEFAULT_GENERATED%', 1, 0),
 IF(c.extra LIKE '%auto_increment%', 2, IF(COALESCE(c.generation_expression, '') <> '', 1, 0)),
 COALESCE((SELECT GROUP_CONCAT(k.column_name SEPARATOR '` + unit + `') FROM information_schema.statistics k WHERE k.table_schema = c.table_schema
  AND k.table_name = c.table_name AND k.index_name = (SELECT MIN(i.index_name) FROM information_schema.statistics i
   WHERE i.table_schema = c.table_schema AND i.table_name = c.table_name AND i.non_unique = 0 AND i.column_name = c.column_name)), ''), @@max_allowed_packet
FROM information_schema.columns c WHERE c.table_schema = COALESCE(?, DATABASE()) AND c.table_name = ? ORDER BY c.ordinal_position`

// catalogColumns is how many texts a row of a catalog query has.
const catalogColumns = 10

// Catalog is the query that tells what NewInsert has to know of a table: its rows are of CatalogColumns texts that are never NULL.
func (d Dialect) Catalog(t *Table) (query string, args []any) {
	if d == MySQL {
		var schema any
		if t.Schema != "" {
			schema = t.Schema
		}
		return mysqlCatalog, []any{schema, t.Name}
	}
	return postgresCatalog, []any{d.table(t)}
}

// CatalogColumns is how many texts a row of a catalog query has.
func (d Dialect) CatalogColumns() int { return catalogColumns }

// quote quotes a name.
func (d Dialect) quote(name string) string {
	if d == MySQL {
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// table is the quoted name of a table; without a schema the session decides.
func (d Dialect) table(t *Table) string {
	if t.Schema == "" {
		return d.quote(t.Name)
	}
	return d.quote(t.Schema) + "." + d.quote(t.Name)
}

// place is the n-th placeholder, counted from 1.
func (d Dialect) place(n int) string {
	if d == MySQL {
		return "?"
	}
	return "$" + strconv.Itoa(n)
}

// same reports whether two names are of one column.
func (d Dialect) same(a, b string) bool {
	if d == MySQL {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// columns reads the rows of a catalog query. packet is the largest statement in bytes; 0 = no bound.
func (d Dialect) columns(t *Table, rows [][]string) (list []Column, packet int, err error) {
	for _, r := range rows {
		if len(r) != catalogColumns {
			return nil, 0, fmt.Errorf("read the catalog of table %s: a row has %d columns, want %d", d.table(t), len(r), catalogColumns)
		}
		length, err := strconv.ParseInt(r[3], 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("read the catalog of table %s: %w", d.table(t), err)
		}
		c := Column{Name: r[0], NotNull: r[5] == "1", Default: r[6] == "1", Generated: r[7] == "1", AutoIncrement: r[7] == "2"}
		if r[8] != "" {
			c.Unique = strings.Split(r[8], unit)
		}
		if d == MySQL {
			c.mysqlType(r[1], r[2], r[4], int(min(length, math.MaxInt32)))
		} else {
			c.postgresType(r[1], int(length))
		}
		if packet, err = strconv.Atoi(r[9]); err != nil {
			return nil, 0, fmt.Errorf("read the catalog of table %s: %w", d.table(t), err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, 0, fmt.Errorf("look up table %s: it does not exist, or this account may not see it: make it with tailbox init, or correct its name", d.table(t))
	}
	return list, packet, nil
}

func (c *Column) ints(bits int, unsigned bool) {
	c.Kind, c.Min, c.Max = KindInt, -1<<(bits-1), 1<<(bits-1)-1
	if unsigned && bits < 64 {
		c.Min, c.Max = 0, 1<<bits-1
	} else if unsigned {
		c.Min = 0
	}
}

// postgresType describes a type of Postgres, whose modifier is the length plus 4.
func (c *Column) postgresType(name string, modifier int) {
	switch name {
	case "text":
		c.Kind = KindText
	case "varchar", "bpchar":
		c.Kind, c.MaxChars = KindText, max(modifier-4, 0)
	case "name":
		c.Kind, c.MaxBytes = KindText, 63
	case "bytea":
		c.Kind = KindBytes
	case "json":
		c.Kind = KindJSON
	case "jsonb":
		c.Kind = KindJSONB
	case "uuid":
		c.Kind = KindUUID
	case "int2":
		c.ints(16, false)
	case "int4":
		c.ints(32, false)
	case "int8":
		c.ints(64, false)
	case "bool":
		c.Kind = KindBool
	case "timestamptz":
		c.Kind = KindTime
	case "timestamp":
		c.Kind = KindLocalTime
	}
}

// mysqlType describes a type of MySQL or MariaDB. The length is in characters for CHAR and VARCHAR, else in bytes.
func (c *Column) mysqlType(name, declared, charset string, length int) {
	unsigned := strings.Contains(declared, "unsigned")
	switch name {
	case "char", "varchar":
		c.Kind, c.MaxChars, c.Charset = KindText, length, charset
	case "tinytext", "text", "mediumtext", "longtext":
		c.Kind, c.MaxBytes, c.Charset = KindText, length, charset
	case "tinyblob", "blob", "mediumblob", "longblob", "varbinary":
		c.Kind, c.MaxBytes = KindBytes, length
	case "binary":
		c.Kind, c.MaxBytes = KindBytes, length
		if length == 16 {
			c.Kind = KindBinaryUUID
		}
	case "json":
		c.Kind = KindJSONB
	case "uuid":
		c.Kind = KindUUID
	case "tinyint":
		c.ints(8, unsigned)
	case "smallint":
		c.ints(16, unsigned)
	case "mediumint":
		c.ints(24, unsigned)
	case "int", "integer":
		c.ints(32, unsigned)
	case "bigint":
		c.ints(64, unsigned)
	case "timestamp":
		c.Kind = KindTime
	case "datetime":
		c.Kind = KindLocalTime
	}
	if c.Charset == "utf8mb4" {
		c.Charset = ""
	}
}

// now is the database's time for a column; "" if its type does not take one.
func (d Dialect) now(c *Column) string {
	mysql := d == MySQL
	switch {
	case c.Kind == KindTime && mysql:
		return "CURRENT_TIMESTAMP(6)"
	case c.Kind == KindTime:
		return "clock_timestamp()"
	case c.Kind == KindLocalTime && mysql:
		return "UTC_TIMESTAMP(6)"
	case c.Kind == KindLocalTime:
		return "(clock_timestamp() AT TIME ZONE 'UTC')"
	case c.Kind == KindInt && c.Max > 1<<32 && mysql:
		return "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)"
	case c.Kind == KindInt && c.Max > 1<<32:
		return "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
	}
	return ""
}
