package columns

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// MaxSmall bounds the other columns of a row that is too large: type, topic and the like are kept up to this size. Of a column that makes the
// group there is one byte more, which shows that it is longer.
const MaxSmall = outbox.MaxGroup

// A Plan says for one table, as its columns are now, which column makes which part of a message. Immutable.
type Plan struct {
	Table string
	// Names are those of all columns, in the order of the rows. Wanted are those that are part of a message.
	Names  []string
	Wanted []bool
	// Columns read the values of a row. The database sets them; a Decoder needs them.
	Columns []Column
	// Indexes of columns; -1 = there is no such column.
	ID, Type, Topic, Key, Payload, Headers                       int
	Tenant, ContentType, IdempotencyKey, CorrelationID, Priority int
	AvailableAt, MaxAttempts, CreatedAt                          int
	// Group joins columns, Fields are columns that go along.
	Group, Fields []int
	// Untyped: a row without a type is a message like any other.
	Untyped bool
	// TextKey: a key of bytes is the database's text of it, as Debezium sends it.
	TextKey bool
	// Refiner adds what no column holds; nil adds nothing.
	Refiner *Refiner
}

// New finds the columns of a configured table by name; same tells whether two names are of one column. A missing column that
// messages cannot do without is an error, a *Missing, that matches source.ErrStop.
func New(t *outbox.Table, names []string, same func(a, b string) bool) (Plan, error) {
	p := Plan{Table: t.String(), Names: names, Wanted: make([]bool, len(names)), Untyped: Untyped(t), TextKey: t.Shape == "debezium"}
	var missing []string
	find := func(key, name string) int {
		if name == "" {
			return -1
		}
		i := slices.IndexFunc(names, func(other string) bool { return same(other, name) })
		if i >= 0 {
			p.Wanted[i] = true
		} else if mandatory(t, key, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return i
	}
	c := &t.Columns
	p.ID, p.Type, p.Topic = find("id", c.ID), find("type", c.Type), find("topic", c.Topic)
	p.Key, p.Payload, p.Headers = find("key", c.Key), find("payload", c.Payload), find("headers", c.Headers)
	p.Tenant, p.ContentType = find("tenant", c.Tenant), find("content_type", c.ContentType)
	p.IdempotencyKey = find("idempotency_key", c.IdempotencyKey)
	p.CorrelationID, p.Priority = find("correlation_id", c.CorrelationID), find("priority", c.Priority)
	p.AvailableAt, p.MaxAttempts = find("available_at", c.AvailableAt), find("max_attempts", c.MaxAttempts)
	p.CreatedAt = find("created_at", c.CreatedAt)
	for _, name := range c.Group {
		if i := find("group", name); i >= 0 {
			p.Group = append(p.Group, i)
		}
	}
	for _, name := range t.Fields {
		if i := find("", name); i >= 0 {
			p.Fields = append(p.Fields, i)
		}
	}
	if c.ID == "" {
		missing = append(missing, "id")
	}
	if p.Headers < 0 && slices.ContainsFunc(t.References, func(r outbox.Reference) bool { return r.Header != "" }) && !slices.Contains(missing, c.Headers) {
		missing = append(missing, cmp.Or(c.Headers, "headers"))
	}
	if len(missing) > 0 {
		e := &Missing{Table: p.Table, Names: missing, among: names}
		if p.Type < 0 && c.Type != "" && t.NeedsType && slices.Contains(missing, c.Type) {
			e.fix = ", or set columns: {type: null} and do without it in routes and placements"
		}
		return p, e
	}
	p.Refiner = NewRefiner(t)
	return p, nil
}

// Missing are columns that messages of a table cannot do without.
type Missing struct {
	Table string
	Names []string
	// fix is a further one. among are the columns that there are.
	fix   string
	among []string
}

func (e *Missing) Error() string {
	texts := make([]string, len(e.Names))
	for i, name := range e.Names {
		texts[i] = name + DidYouMean(name, e.among)
	}
	return fmt.Sprintf("read columns of %s: no column %s: add it to the table, or name the right one under source.tables.columns%s: %v",
		e.Table, strings.Join(texts, ", "), e.fix, source.ErrStop)
}

// Unwrap makes it match source.ErrStop.
func (e *Missing) Unwrap() error { return source.ErrStop }

// Untyped reports whether a row without a type is a message like any other: Debezium never looks at the type of an outbox event. Elsewhere routes go by it.
func Untyped(t *outbox.Table) bool { return t.Shape == "debezium" }

// mandatory reports whether a message of the table cannot be read without the column. A column that the configuration
// names must be there. Of the columns that only the shape names, id, type, payload and what orders and
// addresses a message must be; in the shape tailbox all but id, type and payload are optional, in the shape debezium a type that nothing goes
// by. The tenant must be where messages are chosen by it.
func mandatory(t *outbox.Table, key, name string) bool {
	switch key {
	case "id", "payload":
		return true
	case "type":
		if !Untyped(t) || t.NeedsType {
			return true
		}
	case "tenant":
		if len(t.Tenants) > 0 {
			return true // without it, all messages would be another pipeline's
		}
	case "":
		return !slices.Contains(t.Optional, name)
	}
	shape, ok := outbox.ShapeNamed(t.Shape)
	if !ok {
		return true
	}
	if key == "group" {
		return !slices.Contains(shape.Columns.Group, name) || shape.Name != "tailbox"
	}
	if f := shape.Columns.Field(key); f == nil || *f != name {
		return true
	}
	return shape.Name != "tailbox" && (key == "topic" || key == "key")
}

// Configured lists the names that a plan of the table looks for, each once.
func Configured(t *outbox.Table) []string {
	c := &t.Columns
	names := []string{c.ID, c.Type, c.Topic, c.Key, c.Payload, c.Headers, c.Tenant, c.ContentType, c.IdempotencyKey,
		c.CorrelationID, c.Priority, c.AvailableAt, c.MaxAttempts, c.CreatedAt}
	names = append(append(names, c.Group...), t.Fields...)
	var list []string
	for _, n := range names {
		if n != "" && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// Pending returns the SQL condition by which a table's own columns say that a row is pending, or "" if they do not say it. With a status
// column it is a word for pending; or NULL, as in rows from before the column was added, if delivered_at is NULL, too. Without one,
// delivered_at is NULL. A row that looks dead by a column of the application's own is not pending. Ref returns a column as the statement names it. Equals
// compares it with a value. The table names no column that is missing (DropMissing).
func Pending(t *outbox.Table, ref func(name string) string, isPending func(status string) string, equals func(column, value string) string) string {
	alive := NotDead(t.DeadFlag(), ref, equals)
	if t.Columns.Status != "" {
		return "(" + isPending(ref(t.Columns.Status)) + " OR " + Unlabelled(t, ref, equals) + ")" + alive
	}
	if t.Columns.DeliveredAt != "" {
		return ref(t.Columns.DeliveredAt) + " IS NULL" + alive
	}
	return ""
}

// Unlabelled returns the SQL condition by which a row whose status is NULL is pending.
func Unlabelled(t *outbox.Table, ref func(name string) string, equals func(column, value string) string) string {
	missing := ref(t.Columns.Status) + " IS NULL"
	if t.Columns.DeliveredAt != "" {
		missing += " AND " + ref(t.Columns.DeliveredAt) + " IS NULL"
	}
	return missing + NotDead(t.DeadFlagBeside(), ref, equals)
}

// NotDead returns the further condition that a row has not the value by which it looks dead; "" if there is no such value.
func NotDead(flag *outbox.SetValue, ref func(name string) string, equals func(column, value string) string) string {
	switch {
	case flag == nil:
		return ""
	case flag.Now:
		return " AND " + ref(flag.Column) + " IS NULL"
	}
	return " AND (" + equals(ref(flag.Column), flag.Value) + ") IS NOT TRUE"
}

// IsPending is the condition that a status column, as it stands in a statement, has such a word.
func IsPending(t *outbox.Table, column string, literal func(string) string) string {
	words := t.PendingWords()
	if len(words) == 1 {
		return column + " = " + literal(words[0])
	}
	for i := range words {
		words[i] = literal(words[i])
	}
	return column + " IN (" + strings.Join(words, ", ") + ")"
}

// EpochTime converts a count since 1970 whose unit its size tells: 11 digits are still seconds (the year 5138).
func EpochTime(n int64) time.Time {
	abs := n
	if abs < 0 {
		abs = -abs
	}
	switch {
	case abs < 1e11:
		return time.Unix(n, 0).UTC()
	case abs < 1e14:
		return time.UnixMilli(n).UTC()
	case abs < 1e17:
		return time.UnixMicro(n).UTC()
	}
	return time.Unix(0, n).UTC()
}
