package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// A rowReader reads messages out of a table with SQL, and makes of a row exactly what the log makes of it. Use: query
// "SELECT "+r.list(alias)+further columns, with r.formats(number of further columns) as the first argument, and call
// r.message for each row. Not safe for concurrent use.
type rowReader struct {
	table *tableInfo
	plan  *plan
	columns.Decoder
	vals []value
}

// newRowReader looks up how the table looks now. MaxMessage as in Config.
func newRowReader(ctx context.Context, conn *pgconn.PgConn, t *outbox.Table, maxMessage int) (*rowReader, error) {
	info, err := describeTable(ctx, conn, t)
	if err != nil {
		return nil, err
	}
	return rowReaderOf(info, maxMessage)
}

func rowReaderOf(info *tableInfo, maxMessage int) (*rowReader, error) {
	// Only the columns that messages are made of, so that the plan's columns are those of the query.
	var cols []column
	for _, name := range columns.Configured(&info.Table) {
		if c, ok := info.column(name); ok {
			cols = append(cols, c.column)
		}
	}
	p, err := newPlan(&info.Table, cols)
	if err != nil {
		return nil, err
	}
	return &rowReader{table: info, plan: p, Decoder: columns.Decoder{MaxMessage: maxMessageOr(maxMessage)},
		vals: make([]value, len(cols))}, nil
}

// from is the quoted name of the table.
func (r *rowReader) from() string { return tableName(&r.table.Table) }

// id is the expression of a row's id as text, equal to the message's ID.
func (r *rowReader) id(alias string) string {
	id := alias + "." + quoteIdent(r.table.Columns.ID) + "::text"
	return fmt.Sprintf("CASE WHEN octet_length(%[1]s) BETWEEN 1 AND %[2]d THEN %[1]s ELSE %[3]s || %[4]s END", id, outbox.MaxIndexed,
		quoteLiteral(outbox.StandInID("")), rowPlace(alias))
}

// rowPlace is the expression of where a row lies, and by which transaction: it stays while nobody updates the row.
func rowPlace(alias string) string {
	return fmt.Sprintf("('row-' || %[1]s.tableoid::oid::text || '-' || %[1]s.xmin::text || '-' || %[1]s.ctid::text)", alias)
}

// ownColumns of the list stand before those of the plan: the row's size, and its place.
const ownColumns = 2

// width is the number of columns of the list; further columns of a query begin there.
func (r *rowReader) width() int { return ownColumns + len(r.plan.cols) }

// list is what to select. Its first column is the row's size, by which max_message is applied on the server: of a row that is
// too large, the payload is not sent, and other columns are cut to a size that shows that they were too large.
func (r *rowReader) list(alias string) string {
	var sizes []string
	for _, c := range r.plan.cols {
		if !c.kind.fixed() {
			sizes = append(sizes, "coalesce("+lengthOf(alias, c)+", 0)")
		}
	}
	size := "0"
	if len(sizes) > 0 {
		size = strings.Join(sizes, " + ")
	}
	items := []string{size, rowPlace(alias)}
	fits := size + " <= " + strconv.Itoa(r.MaxMessage)
	for i, c := range r.plan.cols {
		ref := alias + "." + quoteIdent(c.name)
		switch {
		case c.kind.fixed():
		case i == r.plan.Payload:
			ref = "CASE WHEN " + fits + " THEN " + ref + " END"
		case c.kind == kindBytea:
			ref = fmt.Sprintf("CASE WHEN %s <= %d OR %s THEN %s ELSE substring(%[4]s FROM 1 FOR %d) END",
				lengthOf(alias, c), columns.MaxSmall, fits, ref, columns.MaxSmall+1)
		default:
			ref = fmt.Sprintf("CASE WHEN %s <= %d OR %s THEN %s::text ELSE left(%[4]s::text, %d) END",
				lengthOf(alias, c), columns.MaxSmall, fits, ref, columns.MaxSmall+1)
		}
		items = append(items, ref)
	}
	return strings.Join(items, ", ")
}

// lengthOf is the length of a value's text. For text, bytea and their domains the server need not even read the value.
func lengthOf(alias string, c column) string {
	ref := alias + "." + quoteIdent(c.name)
	if c.kind == kindBytea || c.kind == kindBpchar {
		return "octet_length(" + ref + ")"
	}
	return "octet_length(" + ref + "::text)"
}

// formats asks for bytea in binary and all else, further columns too, as text.
func (r *rowReader) formats(further int) pgx.QueryResultFormats {
	f := make(pgx.QueryResultFormats, r.width()+further)
	for i, c := range r.plan.cols {
		if c.kind == kindBytea {
			f[i+ownColumns] = pgx.BinaryFormatCode
		}
	}
	return f
}

// message makes a message of the present row. Position, CommitTime and Txn are the caller's. An error is for rows that not even
// a fault can be made of, and matches source.ErrStop. The message owns its memory.
func (r *rowReader) message(rows pgx.Rows) (*outbox.Message, error) {
	raw, fields := rows.RawValues(), rows.FieldDescriptions()
	if len(raw) < r.width() || len(fields) != len(raw) {
		return nil, fmt.Errorf("read row of %s: the query has %d columns, want %d", r.table, len(raw), r.width())
	}
	size, err := strconv.Atoi(string(raw[0]))
	if err != nil {
		return nil, fmt.Errorf("read row of %s: its size: %w", r.table, err)
	}
	for i := range r.vals {
		v := value{Tag: 't', Data: raw[i+ownColumns]}
		switch {
		case v.Data == nil:
			v.Tag = 'n'
		case fields[i+ownColumns].Format == pgx.BinaryFormatCode:
			v.Tag = 'b'
		}
		r.vals[i] = v
	}
	m := r.NewMessage()
	if err := r.Decode(&r.plan.Plan, r.vals, size > r.MaxMessage, m); err != nil {
		return nil, err
	}
	if m.ID == "" {
		m.ID = outbox.StandInID(string(raw[1]))
	}
	return m, nil
}
