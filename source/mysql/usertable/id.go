package usertable

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// IDForm says how ids of a column travel.
type IDForm uint8

// Forms of ids.
const (
	idText  IDForm = iota // as text, compared by the column's collation, and once more as bytes
	IDInt                 // as a number
	idBytes               // as bytes, filled up with zeros to the column's width
	idUUID                // BINARY(16), whose text is a UUID
)

// An IDType says how the ids of a table are written into a statement, and read out of one.
type IDType struct {
	Form     IDForm
	unsigned bool
	width    int    // of BINARY(n)
	Column   string // quoted
	// charset and collation of text; "" for types that are no text (DATETIME, DECIMAL, ENUM, …).
	charset, collation string
	// distinct: what the collation calls equal is the same text.
	distinct bool
	// numbered: the type orders its values by their numbers, and compares them as texts (ENUM).
	numbered bool
}

// idTypeOf chooses the form by the column's type in information_schema.
func idTypeOf(c *Column, name string) IDType {
	t := IDType{Column: quote.Ident(name)}
	switch c.typ {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		t.Form, t.unsigned = IDInt, strings.Contains(c.full, "unsigned")
	case "binary":
		if t.Form, t.width = idBytes, c.length; c.length == 16 {
			t.Form = idUUID
		}
	case "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		t.Form = idBytes
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext":
		t.charset, t.collation = c.charset, c.collation
		t.distinct = c.typ == "char" && strings.HasSuffix(c.collation, "_bin") // of CHAR, no value ends with a space
	case "enum", "set":
		t.numbered = true
	}
	return t
}

// CanBeID reports whether a row can be found by a message's id where the column has this type: of a BIT or FLOAT, say, the text that a message has
// is not what the server compares with.
func CanBeID(dataType string) bool {
	return slices.Contains([]string{"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "binary", "varbinary", "tinyblob", "blob", "mediumblob",
		"longblob", "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "uuid", "date", "datetime", "timestamp", "time", "year"}, dataType)
}

// A Pick is a piece of a statement that picks rows of alias t by their ids: what stands behind FROM, and the condition.
type Pick struct{ From, Where quote.Raw }

// Picks finds the rows with the ids, one by one through the index: each list that a WHERE compares with may become a scan of
// the whole table, which waits for rows that are being written, or passes over them. What a collation calls equal need not
// be: case, accents and trailing spaces count here. Most types take all ids in one statement.
func (t *Table) Picks(ids []string) ([]Pick, error) {
	id := &t.ID
	if len(ids) == 1 || id.Form == idText && id.collation == "" {
		return t.singlePicks(ids)
	}
	b, err := t.list(make([]byte, 0, 64*len(ids)+200), ids)
	if err != nil {
		return nil, store.OnTable(t.String(), err)
	}
	b = append(b, " STRAIGHT_JOIN "+t.Forced()+" ON t."+id.Column+" = "...)
	switch {
	case id.Form == IDInt && id.unsigned:
		b = append(b, "CAST(v.id AS UNSIGNED)"...)
	case id.Form == IDInt:
		b = append(b, "CAST(v.id AS SIGNED)"...)
	case id.Form != idText:
		b = append(b, "v.id"...)
	default:
		b = append(b, "CONVERT(v.id USING "+id.charset+") COLLATE "+id.collation+" AND "+id.exact("t.")+" = CAST(v.id AS BINARY)"...)
	}
	return []Pick{{quote.Raw(b), "TRUE"}}, nil
}

// A listing is how a statement lists ids as a table.
type listing uint8

const (
	listUnion   listing = iota // MySQL before 8.0.19: each id is a query of its own to the server, which costs as much as the rest
	listRows                   // VALUES ROW (…), ROW (…)
	listMariaDB                // UNION ALL VALUES (…), (…): alone, it would take the first id for the column's name
)

func listingOf(s server.Version) listing {
	switch {
	case s.MariaDB:
		return listMariaDB
	case s.AtLeast(8, 0, 19):
		return listRows
	}
	return listUnion
}

// list writes ids as a table v with the column id.
func (t *Table) list(b []byte, ids []string) (_ []byte, err error) {
	before, first, rest, after := "(SELECT ", " AS id", " UNION ALL SELECT ", ") v"
	switch t.listing {
	case listRows:
		before, first, rest, after = "(VALUES ROW(", "", "),ROW(", ")) v (id)"
	case listMariaDB:
		rest = " UNION ALL VALUES ("
	}
	b = append(b, before...)
	for i, text := range ids {
		switch {
		case i == 1 && t.listing == listMariaDB:
			b, rest, after = append(b, rest...), "),(", ")) v"
		case i > 0:
			b = append(b, rest...)
		}
		if b, err = t.ID.Literal(b, text); err != nil {
			return nil, err
		}
		if i == 0 {
			b = append(b, first...)
		}
	}
	return append(b, after...), nil
}

// listBytes bounds a deletion by a list, which may hold each id twice.
const listBytes = 128 << 10

// Deletion is a statement that deletes the rows with the ids, for which a list costs MySQL a quarter less than picks do; "" where
// there is none. Without the hint, which MySQL takes in a statement about a single table alone, it would look for a list in the
// whole table while that is small, and wait for rows of others (FORCE INDEX beside a join does not keep it from that, nor does
// sql_safe_updates). MariaDB has no such hint.
func (t *Table) Deletion(ids []string) (quote.Raw, error) {
	id := &t.ID
	hint := "/*+ INDEX(" + quote.Ident(t.Name) + " " + t.Index + ") */"
	if !t.hints || id.Form == idText && id.collation == "" || strings.Count(hint, "*/") > 1 {
		return "", nil
	}
	b := append(make([]byte, 0, 64*len(ids)+200), "DELETE "+hint+" FROM "+t.SQL+" WHERE "+id.Column+" IN ("...)
	exact := id.Form == idText && !id.distinct
	for i, text := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		exact = exact || id.Form == idText && (strings.HasSuffix(text, " ") || !isASCII(text)) // a space: of a time when the column was no CHAR
		var err error
		if b, err = id.comparable(b, text); err != nil {
			return "", store.OnTable(t.String(), err)
		}
	}
	b = append(b, ')')
	if exact {
		b = append(b, " AND "+id.exact("")+" IN ("...)
		b = append(quote.Append(b, quote.List(ids)), ')')
	}
	if len(b) > listBytes {
		return "", nil
	}
	return quote.Raw(b), nil
}

// comparable appends an id so that the column's index finds it. Beside a text that the column's character set may not have, the server would convert
// the column, and use no index. What the set does not have becomes a question mark.
func (t *IDType) comparable(b []byte, id string) ([]byte, error) {
	if t.Form == idText && t.collation != "" && !isASCII(id) {
		return append(quote.Append(append(b, "CONVERT("...), id), " USING "+t.charset+") COLLATE "+t.collation...), nil
	}
	return t.Literal(b, id)
}

// singlePicks finds each row without a list. That is for types that only compare with a constant by index, such as DATETIME, and for one row, since
// a list costs the server a temporary table.
func (t *Table) singlePicks(ids []string) ([]Pick, error) {
	id, picks := &t.ID, make([]Pick, len(ids))
	for i, text := range ids {
		where, err := id.comparable([]byte("t."+id.Column+" = "), text)
		if err != nil {
			return nil, store.OnTable(t.String(), err)
		}
		if id.Form == idText {
			where = quote.Append(append(where, " AND "+id.exact("t.")+" = "...), quote.Bin(text))
		}
		picks[i] = Pick{quote.Raw(t.Forced()), quote.Raw(where)}
	}
	return picks, nil
}

// Forced is the table as alias t, looked up by the index of its ids.
func (t *Table) Forced() string { return t.SQL + " t FORCE INDEX (" + t.Index + ")" }

// Literal appends an id as a literal that compares with the column.
func (t IDType) Literal(b []byte, id string) ([]byte, error) {
	switch t.Form {
	case IDInt:
		if t.unsigned {
			n, err := strconv.ParseUint(id, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read id: %w", err)
			}
			return strconv.AppendUint(b, n, 10), nil
		}
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read id: %w", err)
		}
		return strconv.AppendInt(b, n, 10), nil
	case idUUID:
		u, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil || len(u) != 16 {
			return nil, fmt.Errorf("read id %q: %w", id, errors.New("it is no UUID"))
		}
		return quote.Append(b, u), nil
	case idBytes:
		if n := t.width - len(id); n > 0 {
			id += strings.Repeat("\x00", n)
		}
		return quote.Append(b, quote.Bin(id)), nil
	default:
		return quote.Append(b, id), nil
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Findable reports whether the row of a message can be in the table under its id. If the column's type was changed, ids
// from before may be none.
func (t *Table) Findable(id string) bool {
	if outbox.IsStandInID(id) {
		return false
	}
	_, err := t.ID.Literal(nil, id)
	return err == nil
}

// Nameless is the condition by which a row of alias t has no id; "" if the column rules that out.
func (t *Table) Nameless() string {
	var conds []string
	id := "t." + t.ID.Column
	if c := t.Column(t.Columns.ID); c != nil && !c.required {
		conds = append(conds, id+" IS NULL")
	}
	text := ""
	switch t.ID.Form {
	case idText:
		text = "CONVERT(" + id + " USING utf8mb4)"
	case idBytes:
		text = id
	}
	if text != "" {
		conds = append(conds, fmt.Sprintf("LENGTH(%s) NOT BETWEEN 1 AND %d", text, outbox.MaxIndexed))
	}
	return strings.Join(conds, " OR ")
}

// Order is what rows of alias t are ordered by, and a list of them goes on after. Place is its value as text.
func (t IDType) Order() (by, place string) {
	if t.numbered {
		return "t." + t.Column + "+0", "CAST(t." + t.Column + "+0 AS CHAR)"
	}
	return "t." + t.Column, "''"
}

// exact is the id's text as bytes.
func (t IDType) exact(prefix string) string {
	return "CAST(CONVERT(" + prefix + t.Column + " USING utf8mb4) AS BINARY)"
}

// Selected is what to select, for Read.
func (t IDType) Selected(prefix string) string {
	if t.Form == idText {
		return "CONVERT(" + prefix + t.Column + " USING utf8mb4)"
	}
	return prefix + t.Column
}

// Read is the id as Message.ID has it.
func (t IDType) Read(r session.Row, i int) (string, error) {
	switch t.Form {
	case IDInt:
		if t.unsigned {
			return strconv.FormatUint(r.Unsigned(i), 10), nil
		}
		return strconv.FormatInt(r.Num(i), 10), nil
	case idUUID:
		u := r.Bytes(i)
		if len(u) != 16 {
			return "", fmt.Errorf("read id: %d bytes, want 16", len(u))
		}
		return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
	default: // bytes with the zeros that fill them up, which decoding the log puts back
		return r.Text(i), nil
	}
}
