package catalog

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// A RowReader reads messages out of a table with SQL, and makes of a row exactly what the log makes of it. Use: query
// "SELECT "+r.list(alias)+further columns, with r.formats(number of further columns) as the first argument, and call
// r.message for each row. Not safe for concurrent use.
type RowReader struct {
	Table *Table
	plan  *Plan
	columns.Decoder
	vals []columns.Value
}

// NewRowReader looks up how the table looks now. MaxMessage as in Config.
func NewRowReader(ctx context.Context, conn *pgconn.PgConn, t *outbox.Table, maxMessage int) (*RowReader, error) {
	info, err := Describe(ctx, conn, t)
	if err != nil {
		return nil, err
	}
	return rowReaderOf(info, maxMessage)
}

func rowReaderOf(info *Table, maxMessage int) (*RowReader, error) {
	if err := info.Unfound(); err != nil {
		return nil, err
	}
	// Only the columns that messages are made of, so that the plan's columns are those of the query.
	var cols []Column
	for _, name := range columns.Configured(&info.Table) {
		if c, ok := info.Column(name); ok {
			cols = append(cols, c.Column)
		}
	}
	p, err := NewPlan(&info.Table, cols)
	if err != nil {
		return nil, err
	}
	return &RowReader{Table: info, plan: p, Decoder: columns.Decoder{MaxMessage: source.MaxMessage(maxMessage)},
		vals: make([]columns.Value, len(cols))}, nil
}

// From is the quoted name of the table.
func (r *RowReader) From() string { return sqltext.Table(&r.Table.Table) }

// ID is the expression of a row's id as text, equal to the message's ID.
func (r *RowReader) ID(alias string) string {
	id := alias + "." + sqltext.Ident(r.Table.Columns.ID) + "::text"
	return fmt.Sprintf("CASE WHEN octet_length(%[1]s) BETWEEN 1 AND %[2]d THEN %[1]s ELSE %[3]s || %[4]s END", id, outbox.MaxIndexed,
		sqltext.Literal(outbox.StandInID("")), rowPlace(alias))
}

// rowPlace returns the SQL for a row's place and the transaction that wrote it. Both stay until somebody updates the row.
func rowPlace(alias string) string {
	return fmt.Sprintf("('row-' || %[1]s.tableoid::oid::text || '-' || %[1]s.xmin::text || '-' || %[1]s.ctid::text)", alias)
}

// ownColumns of the list stand before those of the plan: the row's size, and its place.
const ownColumns = 2

// Width is the number of columns of the list; further columns of a query begin there.
func (r *RowReader) Width() int { return ownColumns + len(r.plan.Cols) }

// List is what to select. Its first column is the row's size, by which max_message is applied on the server: of a row that is
// too large, the payload is not sent, and other columns are cut to a size that shows that they were too large.
func (r *RowReader) List(alias string) string {
	var sizes []string
	for _, c := range r.plan.Cols {
		if !c.Kind.fixed() {
			sizes = append(sizes, "coalesce("+lengthOf(alias, c)+", 0)")
		}
	}
	size := "0"
	if len(sizes) > 0 {
		size = strings.Join(sizes, " + ")
	}
	items := []string{size, rowPlace(alias)}
	fits := size + " <= " + strconv.Itoa(r.MaxMessage)
	for i, c := range r.plan.Cols {
		ref := alias + "." + sqltext.Ident(c.Name)
		switch {
		case c.Kind.fixed():
		case i == r.plan.Payload:
			ref = "CASE WHEN " + fits + " THEN " + ref + " END"
		case c.Kind == KindBytea:
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
func lengthOf(alias string, c Column) string {
	ref := alias + "." + sqltext.Ident(c.Name)
	if c.Kind == KindBytea || c.Kind == KindBpchar {
		return "octet_length(" + ref + ")"
	}
	return "octet_length(" + ref + "::text)"
}

// Formats asks for bytea in binary and all else, further columns too, as text.
func (r *RowReader) Formats(further int) pgx.QueryResultFormats {
	f := make(pgx.QueryResultFormats, r.Width()+further)
	for i, c := range r.plan.Cols {
		if c.Kind == KindBytea {
			f[i+ownColumns] = pgx.BinaryFormatCode
		}
	}
	return f
}

// Message makes a message of the present row. Position, CommitTime and Txn are the caller's. An error is for rows that not even
// a fault can be made of, and matches source.ErrStop. The message owns its memory.
func (r *RowReader) Message(rows pgx.Rows) (*outbox.Message, error) {
	raw, fields := rows.RawValues(), rows.FieldDescriptions()
	if len(raw) < r.Width() || len(fields) != len(raw) {
		return nil, fmt.Errorf("read row of %s: the query has %d columns, want %d", r.Table, len(raw), r.Width())
	}
	size, err := strconv.Atoi(string(raw[0]))
	if err != nil {
		return nil, fmt.Errorf("read row of %s: its size: %w", r.Table, err)
	}
	for i := range r.vals {
		v := columns.Value{Tag: 't', Data: raw[i+ownColumns]}
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
