package outbox

import (
	"slices"
	"strings"
)

// A Statement writes rows.
type Statement struct {
	SQL  string
	Args []any
	// Rows are what it writes.
	Rows []*Row
	// Returns: it returns a row for each one written, with the id as text (Postgres). Otherwise the number of rows affected tells how
	// many were written, and in MySQL the id last inserted is that of a row whose ID is "".
	Returns bool
}

// Bounds of one statement. All databases take 65,535 parameters; a statement larger than this is not faster.
const (
	maxRows   = 500
	maxParams = 60000
	maxSent   = 1 << 20
)

// Statements writes rows in their order in as few statements as can be. A row whose id the database makes has one of its own.
func (in *Insert) Statements(rows []*Row) []Statement {
	var list []Statement
	for len(rows) > 0 {
		n, params, size := 1, len(in.columns), in.sent(rows[0])
		for n < len(rows) && rows[0].ID != "" && rows[n].ID != "" {
			params, size = params+len(in.columns), size+in.sent(rows[n])
			if n == maxRows || params > maxParams || size > maxSent || in.packet > 0 && size > in.packet {
				break
			}
			n++
		}
		list = append(list, in.Statement(rows[:n]))
		rows = rows[n:]
	}
	return list
}

// Statement writes rows, one at least, in one statement. On Postgres a row that is a duplicate is left out, in place of an
// error that would end the transaction.
func (in *Insert) Statement(rows []*Row) Statement {
	st := Statement{Rows: rows}
	columns := in.union(rows)
	var b strings.Builder
	b.WriteString("INSERT INTO " + in.dialect.table(&in.table) + " (")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(in.dialect.quote(c.Name))
	}
	b.WriteString(") VALUES ")
	conflicts := false
	for i, r := range rows {
		conflicts = conflicts || r.conflicts
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(")
		for j, c := range columns {
			if j > 0 {
				b.WriteString(", ")
			}
			st.Args = in.write(&b, r, c, st.Args)
		}
		b.WriteString(")")
	}
	if in.dialect == Postgres {
		if conflicts {
			b.WriteString(" ON CONFLICT DO NOTHING")
		}
		// To return a column needs SELECT on it, which an application may lack, so it is done only if there is no other way.
		if st.Returns = rows[0].ID == "" || conflicts && len(rows) > 1; st.Returns {
			b.WriteString(" RETURNING " + in.idExpr())
		}
	}
	st.SQL = b.String()
	return st
}

// union are the columns that any of the rows has, in the order of the table.
func (in *Insert) union(rows []*Row) []*Column {
	var list []*Column
	for i := range in.columns {
		c := &in.columns[i]
		if slices.ContainsFunc(rows, func(r *Row) bool { return r.has(c) }) {
			list = append(list, c)
		}
	}
	return list
}

// write writes one value of a row.
func (in *Insert) write(b *strings.Builder, r *Row, c *Column, args []any) []any {
	i := slices.IndexFunc(r.values, func(v cell) bool { return v.column == c })
	if i < 0 {
		b.WriteString("DEFAULT")
		return args
	}
	v := r.values[i]
	if v.arg == nil {
		b.WriteString(v.expr)
		return args
	}
	args = append(args, v.arg)
	b.WriteString(strings.Replace(v.expr, "%s", in.dialect.place(len(args)), 1))
	return args
}

// idExpr is the id as text; ReadID reads it.
func (in *Insert) idExpr() string {
	name := in.dialect.quote(in.id.Name)
	switch {
	case in.dialect == Postgres:
		return name + "::text"
	case in.id.Kind == KindBinaryUUID:
		return "LOWER(HEX(" + name + "))"
	}
	return name
}

// ReadID is the ID of a message whose id a statement or a Lookup returned as text.
func (in *Insert) ReadID(text string) string {
	if b, ok := parseUUID(text); ok && in.id.Kind == KindBinaryUUID {
		return uuidText(b[:])
	}
	return text
}

// A Lookup finds the row that made another one a duplicate. Its query returns no row, or one with the id as text.
type Lookup struct {
	// Column is that of the ID or of the idempotency key, and Value what is looked for.
	Column, Value string
	SQL           string
	Args          []any
}

// Lookups are how to find what made a row a duplicate: first by its idempotency key, then by its ID.
func (in *Insert) Lookups(r *Row) []Lookup {
	var list []Lookup
	if r.draft.IdempotencyKey != "" && in.key != nil {
		list = append(list, in.lookup(r, in.key, r.draft.IdempotencyKey, in.key.Unique))
	}
	if r.draft.ID != "" {
		list = append(list, in.lookup(r, in.id, r.ID, nil))
	}
	return list
}

// lookup looks for a value in a column, and for those of the row in the columns beside it.
func (in *Insert) lookup(r *Row, c *Column, value string, beside []string) Lookup {
	l := Lookup{Column: c.Name, Value: value}
	var b strings.Builder
	b.WriteString("SELECT " + in.idExpr() + " FROM " + in.dialect.table(&in.table) + " WHERE ")
	for _, v := range r.values {
		if v.arg == nil || v.column != c && !slices.ContainsFunc(beside, func(name string) bool { return in.dialect.same(name, v.column.Name) }) {
			continue
		}
		if len(l.Args) > 0 {
			b.WriteString(" AND ")
		}
		b.WriteString(in.dialect.quote(v.column.Name) + " = ")
		l.Args = in.write(&b, r, v.column, l.Args)
	}
	b.WriteString(" LIMIT 1")
	if in.dialect == MySQL {
		// A plain SELECT could be of a snapshot in which the row is not yet.
		b.WriteString(" LOCK IN SHARE MODE")
	}
	l.SQL = b.String()
	return l
}

// Duplicate is the error for a row that is a duplicate of first, as the Lookup that found it says.
func (in *Insert) Duplicate(l Lookup, first string, index int) error {
	return &DuplicateError{Table: strings.TrimPrefix(in.table.String(), "."), Column: l.Column, Value: l.Value, First: first, Index: index}
}

// Erase deletes rows by their IDs, for Options.DeleteAtOnce.
func (in *Insert) Erase(ids []string) (sql string, args []any, err error) {
	places := make([]string, len(ids))
	for i, id := range ids {
		var r Row
		if _, err := in.put(&r, in.id, "ID", id); err != nil {
			return "", nil, err
		}
		args, places[i] = append(args, r.values[0].arg), in.dialect.place(i+1)
	}
	return "DELETE FROM " + in.dialect.table(&in.table) + " WHERE " + in.dialect.quote(in.id.Name) + " IN (" + strings.Join(places, ", ") + ")", args, nil
}
