package outbox

import (
	"errors"
	"fmt"
	"slices"
)

// An Insert builds the statements that write messages to one table. It knows the table's columns as they were when it was
// made; columns that are added later can be used by a new one. It is immutable, and may be used concurrently.
//
// The packages below this one write with it; with any other driver, use it as they do: send Catalog's query once, give its rows to
// NewInsert, and execute what Statement returns in the transaction of the business change.
type Insert struct {
	table   Table
	dialect Dialect
	options Options
	columns []Column
	id      *Column
	// key is the column of the idempotency key, where a unique index has it.
	key    *Column
	packet int
}

// NewInsert makes it of the rows of the dialect's Catalog query. An error says what is wrong with the table.
func NewInsert(d Dialect, t Table, catalog [][]string, o Options) (*Insert, error) {
	if t.Words == (Words{}) {
		t.Words = DefaultWords()
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	in := &Insert{table: t, dialect: d, options: o}
	if d != Postgres && d != MySQL {
		return nil, fmt.Errorf("write to table %s: the dialect %q is unknown: choose %s or %s", d.table(&t), d, Postgres, MySQL)
	}
	if o.DeleteAtOnce && t.OnDelivered != Keep {
		return nil, fmt.Errorf("write to table %s: DeleteAtOnce goes with OnDelivered %q, and it is %q", d.table(&t), Keep, t.OnDelivered)
	}
	var err error
	if in.columns, in.packet, err = d.columns(&t, catalog); err != nil {
		return nil, err
	}
	for _, needed := range []string{t.Columns.ID, t.Columns.Payload, t.Columns.Type} {
		if needed != "" && in.column(needed) == nil {
			return nil, fmt.Errorf("write to table %s: it has no column %s: add it, or name the right one in the table's Columns", d.table(&t), needed)
		}
	}
	if t.Columns.ID == "" || t.Columns.Payload == "" {
		return nil, fmt.Errorf("write to table %s: name the columns of id and payload in the table's Columns", d.table(&t))
	}
	in.id = in.column(t.Columns.ID)
	if c := in.column(t.Columns.IdempotencyKey); c != nil && len(c.Unique) > 0 {
		in.key = c
	}
	return in, nil
}

// Table is the table that is written to.
func (in *Insert) Table() *Table { return &in.table }

// KeyColumn is the column of the idempotency key; "" if no unique index has it.
func (in *Insert) KeyColumn() string {
	if in.key == nil {
		return ""
	}
	return in.key.Name
}

// Options are those that NewInsert got.
func (in *Insert) Options() Options { return in.options }

func (in *Insert) column(name string) *Column {
	i := slices.IndexFunc(in.columns, func(c Column) bool { return name != "" && in.dialect.same(c.Name, name) })
	if i < 0 {
		return nil
	}
	return &in.columns[i]
}

// A Row is a draft that can be written.
type Row struct {
	// ID is the message's; "" if the database makes it.
	ID string
	// May conflict with a row that is there: it has an idempotency key, or an ID that was given.
	conflicts bool
	values    []cell
	draft     Draft
	size      int
}

// Once reports whether a duplicate is as good as written.
func (r *Row) Once() bool { return r.draft.Once }

// Conflicts reports whether the row can be a duplicate: it has an idempotency key, or an ID that was given.
func (r *Row) Conflicts() bool { return r.conflicts }

// A cell is one value of a row: an expression, with one placeholder for arg unless that is nil.
type cell struct {
	column *Column
	expr   string
	arg    any
}

// Row checks a draft: what the table has no column for, what its columns cannot hold, and what is too large, is a *DraftError.
func (in *Insert) Row(d Draft) (*Row, error) {
	values, err := in.table.Values(&d)
	if err != nil {
		return nil, err
	}
	r := &Row{draft: d, conflicts: d.IdempotencyKey != "" || d.ID != ""}
	for _, v := range values {
		c := in.column(v.Column)
		switch {
		case c == nil:
			return nil, in.refuse(v.Field, "has the column %s, which this table does not have: leave it empty, or add the column and make the writer anew", v.Column)
		case c.Generated:
			return nil, in.refuse(v.Field, "has the column %s, which only the database may write", v.Column)
		}
		n, err := in.put(r, c, v.Field, v.Value)
		if err != nil {
			return nil, err
		}
		r.size += n
	}
	if r.size > in.options.MaxMessage {
		return nil, in.refuse("Payload", "and the rest of the message have %d bytes, and may have %d: write a reference to the data in place of it, "+
			"or raise Options.MaxMessage together with the relay's max_message", r.size, in.options.MaxMessage)
	}
	if d.Once && in.key == nil {
		return nil, in.refuse("Once", "needs a unique index on column %s, and there is none", in.table.Columns.IdempotencyKey)
	}
	if err := in.identify(r); err != nil {
		return nil, err
	}
	if err := in.fill(r); err != nil {
		return nil, err
	}
	if n := in.sent(r); in.packet > 0 && n > in.packet {
		return nil, in.refuse("Payload", "makes a statement of %d bytes, and the server takes %d: raise its max_allowed_packet", n, in.packet)
	}
	return r, nil
}

func (in *Insert) refuse(field, format string, args ...any) error {
	return refuse(&in.table, field, format, args...)
}

// set gives a column an expression with at most one placeholder, written %s.
func (r *Row) set(c *Column, expr string, arg any) {
	r.values = append(r.values, cell{c, expr, arg})
}

func (r *Row) has(c *Column) bool {
	return slices.ContainsFunc(r.values, func(v cell) bool { return v.column == c })
}

// identify gives the row an id, unless the database makes it. The id of a uuid column is made here even if the column
// has a default: it is known before the statement, and sorts by time. Nobody but the database writes a generated column.
func (in *Insert) identify(r *Row) error {
	c := in.id
	if r.draft.ID != "" {
		for _, v := range r.values {
			if v.column == c {
				r.ID = in.idText(v.arg)
			}
		}
		return nil
	}
	uuid := c.Kind == KindUUID || c.Kind == KindBinaryUUID
	byDatabase := c.AutoIncrement || c.Default && in.dialect == Postgres
	if c.Generated || byDatabase && !uuid {
		return nil
	}
	newID := in.options.NewID
	if newID == nil {
		if !uuid && (c.Kind != KindText || c.MaxChars > 0 && c.MaxChars < 36) {
			return in.refuse("ID", "is empty, and column %s does not take a UUID: set it, or give the writer Options.NewID", c.Name)
		}
		newID = NewID
	}
	id := newID()
	if id == "" || len(id) > MaxIndexed || IsStandInID(id) {
		return in.refuse("ID", "from Options.NewID has %d bytes: it has 1 to %d, and does not begin with %s", len(id), MaxIndexed, standIn)
	}
	if _, err := in.put(r, c, "ID", id); err != nil {
		return err
	}
	r.ID = in.idText(r.values[len(r.values)-1].arg)
	return nil
}

// idText is the text by which the relay will know an id.
func (in *Insert) idText(arg any) string {
	switch v := arg.(type) {
	case []byte:
		if in.id.Kind == KindBinaryUUID && len(v) == 16 {
			return uuidText(v)
		}
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// fill writes what the table demands and no draft has: the word for pending, no attempts, and the time.
func (in *Insert) fill(r *Row) error {
	t := &in.table.Columns
	for i := range in.columns {
		c := &in.columns[i]
		if r.has(c) || c.Generated {
			continue
		}
		must := c.NotNull && !c.Default
		is := func(name string) bool { return name != "" && in.dialect.same(name, c.Name) }
		var err error
		switch {
		case is(t.Status):
			_, err = in.put(r, c, "Words.Pending", in.table.Words.Pending)
		case is(t.Attempts) && must:
			_, err = in.put(r, c, "Attempts", int64(0))
		case is(t.Failures) && must:
			_, err = in.put(r, c, "Failures", int64(0))
		case (is(t.CreatedAt) || is(t.UpdatedAt) && must) && !c.Default:
			err = in.now(r, c)
		case is(t.Headers) && must:
			_, err = in.put(r, c, "Headers", map[string]string{})
		case must && c != in.id:
			err = in.refuse(in.needed(c), "is not given, and column %s may not be NULL", c.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needed names the part of a draft that a column gets its value from.
func (in *Insert) needed(c *Column) string {
	t := &in.table.Columns
	for _, known := range []struct{ column, field string }{{t.Type, "Type"}, {t.Topic, "Topic"}, {t.Key, "Key"}, {t.Payload, "Payload"},
		{t.Tenant, "Tenant"}, {t.ContentType, "ContentType"}, {t.IdempotencyKey, "IdempotencyKey"}, {t.CorrelationID, "CorrelationID"},
		{t.Priority, "Priority"}, {t.AvailableAt, "AvailableAt"}, {t.MaxAttempts, "MaxAttempts"}} {
		if known.column != "" && in.dialect.same(known.column, c.Name) {
			return known.field
		}
	}
	for _, name := range t.Group {
		if in.dialect.same(name, c.Name) {
			return "Group"
		}
	}
	return "Fields[" + c.Name + "]"
}

// now writes the database's time.
func (in *Insert) now(r *Row, c *Column) error {
	expr := in.dialect.now(c)
	if expr == "" && c.NotNull {
		return in.refuse("CreatedAt", "is not given, and column %s may not be NULL", c.Name)
	}
	if expr != "" {
		r.set(c, expr, nil)
	}
	return nil
}

// sent is how many bytes a row has in a statement at most, where the driver writes values into it as literals. What literals add is
// only counted where the server bounds a statement.
func (in *Insert) sent(r *Row) int {
	const each = 64
	n := 4096
	for _, v := range r.values {
		n += each + len(v.column.Name)
		switch a := v.arg.(type) {
		case string:
			n += len(a)
			if in.packet > 0 {
				n += escaped(a)
			}
		case []byte:
			n += len(a)
			if in.packet > 0 {
				n += escaped(a)
			}
		}
	}
	return n
}

// escaped counts the bytes that take two in a literal.
func escaped[T string | []byte](s T) (n int) {
	for i := range len(s) {
		switch s[i] {
		case 0, '\n', '\r', '\\', '\'', '"', 0x1a:
			n++
		}
	}
	return n
}

// Rows checks drafts that are written together. The error has the place of the first that cannot be written.
func (in *Insert) Rows(drafts []Draft) ([]*Row, error) {
	rows, given := make([]*Row, len(drafts)), map[string]bool{}
	for i, d := range drafts {
		r, err := in.Row(d)
		if r != nil && d.ID != "" && given[r.ID] {
			err = in.refuse("ID", "%s is that of another draft, too", r.ID)
		}
		if wrong, ok := errors.AsType[*DraftError](err); ok {
			wrong.Index = i
		}
		if err != nil {
			return nil, err
		}
		given[r.ID], rows[i] = true, r
	}
	return rows, nil
}
