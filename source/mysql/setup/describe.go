package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/report"
)

// Describe reads what the server says about a table, and some of its rows. database "" is that of the connection.
func Describe(ctx context.Context, cfg server.Config, database, name string) (t *report.Table, err error) {
	conn, err := cfg.Connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	t = &report.Table{Schema: database, Name: name, Quote: "`"}
	here := " = " + schema.InSchema(database) + " AND table_name = " + quote.Text(name)
	rows, err := conn.Texts(ctx, "SELECT column_name, column_type, data_type, is_nullable, COALESCE(column_default, ''), extra FROM information_schema.columns WHERE table_schema"+here+" ORDER BY ordinal_position")
	if err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, columns.Unknown(&outbox.Table{Schema: database, Name: name}, "this account must not see it: write the name as it is in the database, with its capitals",
			func(t *outbox.Table) ([]string, error) { return tablesBeside(ctx, conn, t) })
	}
	for _, row := range rows {
		c := report.Column{Name: row[0], Type: row[1], Class: classOf(row[1], row[2]), NotNull: row[3] == "NO", Default: strings.Trim(row[4], "'"),
			Numbered: strings.Contains(row[5], "auto_increment"), Generated: catalog.IsGenerated(row[5]), Touched: catalog.IsTouched(row[5])}
		if c.Default == "NULL" {
			c.Default = ""
		}
		if row[2] == "enum" {
			c.Labels = labels(row[1])
		}
		if c.Generated {
			c.Type += " GENERATED"
		}
		t.Columns = append(t.Columns, c)
	}
	unique, err := conn.Texts(ctx, "SELECT index_name, column_name FROM information_schema.statistics s WHERE table_schema"+here+
		" AND non_unique = 0 AND NOT "+catalog.HiddenIndex(conn.Server)+" ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index")
	if err != nil {
		return nil, fmt.Errorf("read indexes of %s: %w", name, err)
	}
	last := ""
	for _, row := range unique {
		if row[0] != last {
			t.Unique, last = append(t.Unique, nil), row[0]
		}
		t.Primary = t.Primary || row[0] == "PRIMARY"
		t.Unique[len(t.Unique)-1] = append(t.Unique[len(t.Unique)-1], row[1])
	}
	return t, readRows(ctx, conn, t)
}

func classOf(full, base string) report.Class {
	switch {
	case full == "tinyint(1)", full == "bit(1)":
		return report.Bool
	case full == "binary(16)", base == "uuid":
		return report.UUID
	case base == "json":
		return report.JSON
	case slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"}, base):
		return report.Number
	case slices.Contains([]string{"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"}, base):
		return report.Text
	case slices.Contains([]string{"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}, base):
		return report.Binary
	case base == "timestamp":
		return report.Time
	case base == "datetime":
		return report.LocalTime
	}
	return report.Other
}

// labels are the words of an enum, as information_schema shows its type.
func labels(full string) (words []string) {
	for rest := strings.TrimSuffix(strings.TrimPrefix(full, "enum("), ")"); len(rest) > 1; {
		end := 1
		for end < len(rest) && (rest[end] != '\'' || end+1 < len(rest) && rest[end+1] == '\'') {
			if rest[end] == '\'' {
				end++
			}
			end++
		}
		words = append(words, strings.ReplaceAll(rest[1:end], "''", "'"))
		rest = strings.TrimPrefix(rest[min(end+1, len(rest)):], ",")
	}
	return words
}

// readRows looks at some rows, and counts the values of columns that have few.
func readRows(ctx context.Context, conn *server.Conn, t *report.Table) error {
	from := quote.Table(&outbox.Table{Schema: t.Schema, Name: t.Name})
	var texts []string
	for i := range t.Columns {
		c := &t.Columns[i]
		later := "0"
		text := "CONVERT(" + quote.Ident(c.Name) + " USING utf8mb4)"
		switch c.Class {
		case report.Binary:
			text = quote.Ident(c.Name)
		case report.UUID, report.Other:
			text = "''"
		case report.Time:
			later = "COALESCE(" + quote.Ident(c.Name) + " > NOW(6), 0)"
		case report.LocalTime:
			later = fmt.Sprintf("COALESCE(%s > NOW(6) + INTERVAL %d HOUR, 0)", quote.Ident(c.Name), report.HoursAhead)
		}
		texts = append(texts, fmt.Sprintf("COALESCE(LEFT(%s, %d), '')", text, report.SampleLength), quote.Ident(c.Name)+" IS NULL", later)
	}
	rows, err := conn.Texts(ctx, fmt.Sprintf("SELECT %s FROM %s LIMIT %d", strings.Join(texts, ", "), from, report.SampleRows))
	if err != nil {
		return fmt.Errorf("read rows of %s: %w", t.Name, err)
	}
	t.Rows = len(rows)
	for _, row := range rows {
		for i := range t.Columns {
			c, text, null, later := &t.Columns[i], row[3*i], row[3*i+1], row[3*i+2]
			if text != "" {
				c.Look(text)
			}
			if null == "1" {
				c.Nulls++
			}
			c.Ahead = c.Ahead || later == "1"
		}
	}
	return t.Count(func(c *report.Column) (values []report.Value, err error) {
		rows, err := conn.Texts(ctx, fmt.Sprintf("SELECT v, COUNT(*) AS n FROM (SELECT LEFT(CONVERT(%s USING utf8mb4), %d) AS v FROM %s LIMIT %d) s WHERE v IS NOT NULL GROUP BY v ORDER BY n DESC, v LIMIT %d",
			quote.Ident(c.Name), report.SampleLength, from, report.CountedRows, report.FewValues+1))
		for _, row := range rows {
			n, err := strconv.Atoi(row[1])
			if err != nil {
				return nil, fmt.Errorf("count values of column %s: %w", c.Name, err)
			}
			values = append(values, report.Value{Text: row[0], Rows: n})
		}
		if err != nil {
			return nil, fmt.Errorf("count values of column %s: %w", c.Name, err)
		}
		return values, nil
	})
}
