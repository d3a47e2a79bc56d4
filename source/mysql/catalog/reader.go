package catalog

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/quote"
)

// A Reader reads messages out of a table with SQL, and makes of a row exactly what the log makes of it. Use: query
// "SELECT "+r.SelectList(alias)+further columns by the text protocol, and call r.Message for each row. Not safe for concurrent use.
type Reader struct {
	Table *Table
	plan  *Plan
	columns.Decoder
	vals []columns.Value
}

// NewReader reads rows of a table. It is an error that matches source.ErrStop if messages cannot be made of them.
func NewReader(info *Table, maxMessage int) (*Reader, error) {
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
	return &Reader{Table: info, plan: p, Decoder: columns.Decoder{MaxMessage: source.MaxMessage(maxMessage)}, vals: make([]columns.Value, len(cols))}, nil
}

// From is the quoted name of the table.
func (r *Reader) From() string { return quote.Table(&r.Table.Table) }

// ID is the expression of a row's id as text in utf8mb4, equal to the message's ID. No index serves it: to find a row by
// its id compare the column itself with IDLiteral.
func (r *Reader) ID(alias string) string { return r.Table.IDText(alias) }

// IDText is the expression of a row's id, as Reader.ID has it.
func (t *Table) IDText(alias string) string {
	c, ok := t.Column(t.Columns.ID)
	ref := alias + "." + quote.Ident(t.Columns.ID)
	switch {
	case ok && c.Kind == KindUUID:
		h := "LOWER(HEX(" + ref + "))"
		return "CONCAT(SUBSTR(" + h + ",1,8),'-',SUBSTR(" + h + ",9,4),'-',SUBSTR(" + h + ",13,4),'-',SUBSTR(" + h + ",17,4),'-',SUBSTR(" + h + ",21))"
	case ok && (c.Kind == KindBit || c.Kind == KindInt || c.Kind == KindDecimal): // no longer a column, which may have ZEROFILL
		return "CAST(" + ref + "+0 AS CHAR)"
	}
	return "CAST(" + ref + " AS CHAR)"
}

// IDLiteral is a message's ID as a literal that compares with the id column by its index.
func (t *Table) IDLiteral(id string) (string, error) {
	c, _ := t.Column(t.Columns.ID)
	switch c.Kind {
	case KindUUID:
		b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil || len(b) != 16 {
			return "", fmt.Errorf("id %q of %s is no UUID", id, t)
		}
		return "X'" + hex.EncodeToString(b) + "'", nil
	case KindInt, KindBit:
		if c.Unsigned || c.Kind == KindBit {
			n, err := strconv.ParseUint(id, 10, 64)
			if err != nil {
				return "", fmt.Errorf("id %q of %s is no whole number", id, t)
			}
			return strconv.FormatUint(n, 10), nil
		}
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return "", fmt.Errorf("id %q of %s is no whole number", id, t)
		}
		return strconv.FormatInt(n, 10), nil
	case KindBytes:
		return "X'" + hex.EncodeToString([]byte(id)) + "'", nil
	}
	return quote.Text(id), nil
}

// Width is the number of columns of the list; further columns of a query begin there.
func (r *Reader) Width() int { return 1 + len(r.plan.Cols) }

// SelectList is what to select. Its first column is the row's size, by which max_message is applied on the server: of a row that is
// too large, the payload is not sent, and other columns are cut to a size that shows that they were too large. All columns
// come as text or bytes, so that the driver converts none.
func (r *Reader) SelectList(alias string) string {
	size := r.Size(alias)
	items := []string{"CAST(" + size + " AS CHAR)"}
	fits := size + " <= " + strconv.Itoa(r.MaxMessage)
	for i, c := range r.plan.Cols {
		ref := alias + "." + quote.Ident(c.Name)
		switch c.Kind {
		case KindBytes:
		case KindBit, KindUUID:
			ref = "CAST(" + ref + " AS BINARY)"
		case KindFloat, KindDouble: // of an expression all digits come; times one, a zero keeps its sign
			ref = "CAST(" + ref + "*1e0 AS CHAR)"
		default:
			ref = "CAST(" + ref + " AS CHAR)"
		}
		switch {
		case c.Kind.Fixed():
		case i == r.plan.Payload:
			ref = "CASE WHEN " + fits + " THEN " + ref + " END"
		default:
			ref = fmt.Sprintf("CASE WHEN %s <= %d OR %s THEN %s ELSE LEFT(%[4]s, %d) END",
				lengthOf(alias, &c), columns.MaxSmall, fits, ref, columns.MaxSmall+1)
		}
		items = append(items, ref)
	}
	return strings.Join(items, ", ")
}

// Size is a row's size in bytes: that of all columns which can be large.
func (r *Reader) Size(alias string) string {
	var sizes []string
	for _, c := range r.plan.Cols {
		if !c.Kind.Fixed() {
			sizes = append(sizes, "COALESCE("+lengthOf(alias, &c)+",0)")
		}
	}
	if len(sizes) == 0 {
		return "0"
	}
	return strings.Join(sizes, "+")
}

// lengthOf is the length of a value in bytes.
func lengthOf(alias string, c *Column) string {
	ref := alias + "." + quote.Ident(c.Name)
	if c.Kind == KindJSON {
		return "JSON_STORAGE_SIZE(" + ref + ")"
	}
	return "LENGTH(" + ref + ")"
}

// Message makes a message of a row's first columns. Position, CommitTime and Txn are the caller's. An error is for rows that not even
// a fault can be made of, and matches source.ErrStop. The message owns its memory.
func (r *Reader) Message(row []mysql.FieldValue) (*outbox.Message, error) {
	if len(row) < r.Width() {
		return nil, fmt.Errorf("read row of %s: the query has %d columns, want %d", r.Table, len(row), r.Width())
	}
	size, err := strconv.Atoi(string(row[0].AsString()))
	if err != nil {
		return nil, fmt.Errorf("read row of %s: its size: %w", r.Table, err)
	}
	for i := range r.vals {
		v := &row[i+1]
		switch v.Type {
		case mysql.FieldValueTypeNull:
			r.vals[i] = columns.Value{Tag: columns.Null}
		case mysql.FieldValueTypeString:
			r.vals[i] = columns.Value{Tag: tagText, Data: v.AsString()}
		default:
			return nil, fmt.Errorf("read row of %s: column %s came as a number: %w", r.Table, r.plan.Names[i], binlog.ErrProtocol)
		}
	}
	m := r.NewMessage()
	return m, r.Decode(&r.plan.Plan, r.vals, size > r.MaxMessage, m)
}
