package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// ConnectSchemas describes the columns of a table, database.name, as Debezium's connector does for Kafka Connect: each column's schema as Kafka's JSON
// converter writes it, by name. Left out are columns whose type Debezium sends in another form than tailbox, or in a form that its modes of times and
// decimals change; the mode structured is not counted here. The schema is "" if the column has a default, which Debezium puts into it.
func ConnectSchemas(ctx context.Context, kind, url, table string) (schemas map[string]string, err error) {
	cfg := server.Config{Config: source.Config{URL: url}, Kind: kind}
	conn, err := cfg.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to describe table %s: %w", table, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	database, name, ok := strings.Cut(table, ".")
	if !ok {
		return nil, fmt.Errorf("describe table %s: its name needs its database in front: %w", table, source.ErrStop)
	}
	rows, err := conn.Texts(ctx, "SELECT column_name, LOWER(column_type), is_nullable, COALESCE(column_default, 'NULL') FROM information_schema.columns WHERE table_schema = "+
		quote.Text(database)+" AND table_name = "+quote.Text(name))
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("describe table %s: it does not exist: %w", table, source.ErrStop)
	}
	schemas = map[string]string{}
	for _, r := range rows {
		typ, further := connectForm(r[1])
		switch {
		case typ == "":
		case r[3] == "NULL":
			schemas[r[0]] = fmt.Sprintf(`{"type":"%s","optional":%t%s}`, typ, r[2] == "YES", further)
		default:
			schemas[r[0]] = ""
		}
	}
	return schemas, nil
}

// connectForm is the type of a column's schema, and what follows in it; "" for types that ConnectSchemas leaves out.
func connectForm(declared string) (typ, further string) {
	word, _, _ := strings.Cut(declared, " ")
	word, _, _ = strings.Cut(word, "(")
	unsigned := strings.Contains(declared, " unsigned")
	switch word {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		return "string", ""
	case "json":
		return "string", `,"name":"io.debezium.data.Json","version":1`
	case "timestamp":
		return "string", `,"name":"io.debezium.time.ZonedTimestamp","version":1`
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return "bytes", ""
	case "tinyint":
		return "int16", ""
	case "smallint":
		if unsigned {
			return "int32", ""
		}
		return "int16", ""
	case "mediumint":
		return "int32", ""
	case "int":
		if unsigned {
			return "int64", ""
		}
		return "int32", ""
	case "bigint":
		if !unsigned {
			return "int64", ""
		}
	}
	return "", ""
}
