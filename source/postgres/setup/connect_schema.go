package setup

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// ConnectSchemas describes the columns of a table as Debezium's connector does for Kafka Connect: each column's schema as
// Kafka's JSON converter writes it, by name. Left out are columns whose type Debezium sends in another form than the
// database's text, and those with a constant as default, which it puts into the schema.
func ConnectSchemas(ctx context.Context, url, table string) (schemas map[string]string, err error) {
	cc, err := session.ParseConnection(url)
	if err != nil {
		return nil, fmt.Errorf("%w: describe table %s: the connection url %w", source.ErrStop, table, err)
	}
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, fmt.Errorf("connect to describe table %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	var found uint32
	err = conn.QueryRow(ctx, "SELECT coalesce(pg_catalog.to_regclass($1)::pg_catalog.oid, 0)", table).Scan(&found)
	if err == nil {
		_, err = conn.Exec(ctx, session.PinPath)
	}
	if err != nil {
		return nil, fmt.Errorf("look for table %s: %w", table, err)
	}
	rows, err := conn.Query(ctx, `SELECT a.attname, a.atttypid, a.attnotnull, coalesce(pg_get_expr(d.adbin, d.adrelid), '')
		FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped`, found)
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	}
	schemas = map[string]string{}
	var name string
	var oid uint32
	var notNull bool
	var expression string
	_, err = pgx.ForEachRow(rows, []any{&name, &oid, &notNull, &expression}, func() error {
		if literal, ok := withDefault(connectSchema(oid, !notNull), oid, expression); ok {
			schemas[name] = literal
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	case found == 0:
		return nil, fmt.Errorf("describe table %s: it does not exist: %w", table, source.ErrStop)
	}
	return schemas, nil
}

var functionCall = regexp.MustCompile(`^\(?[A-Za-z0-9_.]+\(.*\)$`)

// withDefault adds what Debezium puts into a schema for a column whose default is a function's value. A constant
// is not described.
func withDefault(schema string, oid uint32, expression string) (literal string, ok bool) {
	if schema == "" || expression == "" {
		return schema, schema != ""
	}
	if !functionCall.MatchString(expression) {
		return "", false
	}
	placeholder := ""
	switch k, _ := catalog.BuiltinKind(oid); k {
	case catalog.KindUUID:
		placeholder = `"00000000-0000-0000-0000-000000000000"`
	case catalog.KindInt2, catalog.KindInt4, catalog.KindInt8:
		placeholder = "0"
	case catalog.KindText, catalog.KindBpchar:
		placeholder = `""`
	default:
		return "", false
	}
	return strings.TrimSuffix(schema, "}") + `,"default":` + placeholder + "}", true
}

// connectSchema is the schema of a type; "" for those that are sent in another form than as text.
func connectSchema(oid uint32, optional bool) string {
	of := func(kind, logical string) string {
		s := `{"type":"` + kind + `","optional":` + strconv.FormatBool(optional)
		if logical != "" {
			s += `,"name":"io.debezium.data.` + logical + `","version":1`
		}
		return s + "}"
	}
	switch oid {
	case 114: // json
		return of("string", "Json")
	case 142: // xml
		return of("string", "Xml")
	}
	switch k, _ := catalog.BuiltinKind(oid); k {
	case catalog.KindText, catalog.KindBpchar:
		return of("string", "")
	case catalog.KindBytea:
		return of("bytes", "")
	case catalog.KindJSONB:
		return of("string", "Json")
	case catalog.KindUUID:
		return of("string", "Uuid")
	case catalog.KindBool:
		return of("boolean", "")
	case catalog.KindInt2:
		return of("int16", "")
	case catalog.KindInt4:
		return of("int32", "")
	case catalog.KindInt8, catalog.KindOID:
		return of("int64", "")
	}
	return ""
}
