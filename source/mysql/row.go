package mysql

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// A rowReader reads messages out of a table with SQL, and makes of a row exactly what the log makes of it. Use: query
// "SELECT "+r.list(alias)+further columns by the text protocol, and call r.message for each row. Not safe for concurrent use.
type rowReader struct {
	table *tableInfo
	plan  *plan
	columns.Decoder
	vals []value
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
	return &rowReader{table: info, plan: p, Decoder: columns.Decoder{MaxMessage: maxMessageOr(maxMessage)}, vals: make([]value, len(cols))}, nil
}

// from is the quoted name of the table.
func (r *rowReader) from() string { return tableName(&r.table.Table) }

// id is the expression of a row's id as text in utf8mb4, equal to the message's ID. No index serves it: to find a row by
// its id compare the column itself with idLiteral.
func (r *rowReader) id(alias string) string { return r.table.idText(alias) }

func (t *tableInfo) idText(alias string) string {
	c, ok := t.column(t.Columns.ID)
	ref := alias + "." + quoteIdent(t.Columns.ID)
	switch {
	case ok && c.kind == kindUUID:
		h := "LOWER(HEX(" + ref + "))"
		return "CONCAT(SUBSTR(" + h + ",1,8),'-',SUBSTR(" + h + ",9,4),'-',SUBSTR(" + h + ",13,4),'-',SUBSTR(" + h + ",17,4),'-',SUBSTR(" + h + ",21))"
	case ok && (c.kind == kindBit || c.kind == kindInt || c.kind == kindDecimal): // no longer a column, which may have ZEROFILL
		return "CAST(" + ref + "+0 AS CHAR)"
	}
	return "CAST(" + ref + " AS CHAR)"
}

// idLiteral is a message's ID as a literal that compares with the id column by its index.
func (t *tableInfo) idLiteral(id string) (string, error) {
	c, _ := t.column(t.Columns.ID)
	switch c.kind {
	case kindUUID:
		b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil || len(b) != 16 {
			return "", fmt.Errorf("id %q of %s is no UUID", id, t)
		}
		return "X'" + hex.EncodeToString(b) + "'", nil
	case kindInt, kindBit:
		if c.unsigned || c.kind == kindBit {
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
	case kindBytes:
		return "X'" + hex.EncodeToString([]byte(id)) + "'", nil
	}
	return quoteLiteral(id), nil
}

// width is the number of columns of the list; further columns of a query begin there.
func (r *rowReader) width() int { return 1 + len(r.plan.cols) }

// list is what to select. Its first column is the row's size, by which max_message is applied on the server: of a row that is
// too large, the payload is not sent, and other columns are cut to a size that shows that they were too large. All columns
// come as text or bytes, so that the driver converts none.
func (r *rowReader) list(alias string) string {
	size := r.size(alias)
	items := []string{"CAST(" + size + " AS CHAR)"}
	fits := size + " <= " + strconv.Itoa(r.MaxMessage)
	for i, c := range r.plan.cols {
		ref := alias + "." + quoteIdent(c.name)
		switch c.kind {
		case kindBytes:
		case kindBit, kindUUID:
			ref = "CAST(" + ref + " AS BINARY)"
		case kindFloat, kindDouble: // of an expression all digits come; times one, a zero keeps its sign
			ref = "CAST(" + ref + "*1e0 AS CHAR)"
		default:
			ref = "CAST(" + ref + " AS CHAR)"
		}
		switch {
		case c.kind.fixed():
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

// size is a row's size in bytes: that of all columns which can be large.
func (r *rowReader) size(alias string) string {
	var sizes []string
	for _, c := range r.plan.cols {
		if !c.kind.fixed() {
			sizes = append(sizes, "COALESCE("+lengthOf(alias, &c)+",0)")
		}
	}
	if len(sizes) == 0 {
		return "0"
	}
	return strings.Join(sizes, "+")
}

// lengthOf is the length of a value in bytes.
func lengthOf(alias string, c *column) string {
	ref := alias + "." + quoteIdent(c.name)
	if c.kind == kindJSON {
		return "JSON_STORAGE_SIZE(" + ref + ")"
	}
	return "LENGTH(" + ref + ")"
}

// message makes a message of a row's first columns. Position, CommitTime and Txn are the caller's. An error is for rows that not even
// a fault can be made of, and matches source.ErrStop. The message owns its memory.
func (r *rowReader) message(row []mysql.FieldValue) (*outbox.Message, error) {
	if len(row) < r.width() {
		return nil, fmt.Errorf("read row of %s: the query has %d columns, want %d", r.table, len(row), r.width())
	}
	size, err := strconv.Atoi(string(row[0].AsString()))
	if err != nil {
		return nil, fmt.Errorf("read row of %s: its size: %w", r.table, err)
	}
	for i := range r.vals {
		v := &row[i+1]
		switch v.Type {
		case mysql.FieldValueTypeNull:
			r.vals[i] = value{Tag: columns.Null}
		case mysql.FieldValueTypeString:
			r.vals[i] = value{Tag: tagText, Data: v.AsString()}
		default:
			return nil, fmt.Errorf("read row of %s: column %s came as a number: %w", r.table, r.plan.Names[i], binlog.ErrProtocol)
		}
	}
	m := r.NewMessage()
	return m, r.Decode(&r.plan.Plan, r.vals, size > r.MaxMessage, m)
}

// defaultMaxMessage applies where the configuration has no max_message.
const defaultMaxMessage = 16 << 20

func maxMessageOr(n int) int {
	if n <= 0 {
		return defaultMaxMessage
	}
	return n
}
