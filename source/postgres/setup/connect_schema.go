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
// Kafka's JSON converter writes it, by name. Left out are columns whose type Debezium sends in another form than tailbox, or in a
// form that its modes of times and decimals change; the mode structured is not counted here. The schema is "" if Debezium puts a default into it that is
// not known here.
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
		if literal := connectSchema(oid, !notNull); literal != "" {
			schemas[name] = withDefault(literal, oid, expression)
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

// withDefault adds what Debezium puts into a schema for a column whose default is a function's value. It returns "" for a
// constant, and for types whose value is not known.
func withDefault(schema string, oid uint32, expression string) string {
	if expression == "" {
		return schema
	}
	if !functionCall.MatchString(expression) {
		return ""
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
		return ""
	}
	return strings.TrimSuffix(schema, "}") + `,"default":` + placeholder + "}"
}

// connectSchema is the schema of a type; "" for those that ConnectSchemas leaves out.
func connectSchema(oid uint32, optional bool) string {
	of := func(kind, logical string) string {
		s := `{"type":"` + kind + `","optional":` + strconv.FormatBool(optional)
		if logical != "" {
			s += `,"name":"io.debezium.` + logical + `","version":1`
		}
		return s + "}"
	}
	switch oid {
	case 114: // json
		return of("string", "data.Json")
	case 142: // xml
		return of("string", "data.Xml")
	}
	switch k, _ := catalog.BuiltinKind(oid); k {
	case catalog.KindText, catalog.KindBpchar:
		return of("string", "")
	case catalog.KindBytea:
		return of("bytes", "")
	case catalog.KindJSONB:
		return of("string", "data.Json")
	case catalog.KindUUID:
		return of("string", "data.Uuid")
	case catalog.KindTimestamptz:
		return of("string", "time.ZonedTimestamp")
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
