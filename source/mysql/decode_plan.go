package mysql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A column is one column of a table, as the log or a query describes it.
type column struct {
	name     string
	kind     kind
	unsigned bool
	// size is the length of BINARY and BIT in bytes. Digits and scale are those of DECIMAL; digits are the fractional digits of times.
	size          int
	digits, scale int
	// labels of ENUM and SET.
	labels []string
	// nullDefault: a row that the log holds without this column has NULL in it.
	nullDefault bool
	// why the column cannot be read, for kindOther.
	why string
}

// A plan says for one table, as its columns are now, which column makes which part of a message. Immutable.
type plan struct {
	table string
	cols  []plannedColumn
	// Indexes into cols; -1 = there is no such column.
	id, typ, topic, key, payload, headers                        int
	tenant, contentType, idempotencyKey, correlationID, priority int
	availableAt, maxAttempts, createdAt                          int
	group                                                        []int
	fields                                                       []int
}

type plannedColumn struct {
	column
	want bool
}

// maxSmall bounds the other columns of a row that is too large: type, topic, group and the like are kept up to this size.
const maxSmall = 64 << 10

// newPlan finds the columns of a configured table by name. A missing column that messages cannot do without is an error
// that matches source.ErrStop.
func newPlan(t *outbox.Table, cols []column) (*plan, error) {
	p := &plan{table: t.String(), cols: make([]plannedColumn, len(cols))}
	for i, c := range cols {
		p.cols[i].column = c
	}
	var missing []string
	find := func(key, name string) int {
		if name == "" {
			return -1
		}
		i := slices.IndexFunc(cols, func(c column) bool { return strings.EqualFold(c.name, name) })
		if i >= 0 {
			p.cols[i].want = true
		} else if mandatory(t, key, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		return i
	}
	c := &t.Columns
	p.id, p.typ, p.topic = find("id", c.ID), find("type", c.Type), find("topic", c.Topic)
	p.key, p.payload, p.headers = find("key", c.Key), find("payload", c.Payload), find("headers", c.Headers)
	p.tenant, p.contentType = find("tenant", c.Tenant), find("content_type", c.ContentType)
	p.idempotencyKey = find("idempotency_key", c.IdempotencyKey)
	p.correlationID, p.priority = find("correlation_id", c.CorrelationID), find("priority", c.Priority)
	p.availableAt, p.maxAttempts = find("available_at", c.AvailableAt), find("max_attempts", c.MaxAttempts)
	p.createdAt = find("created_at", c.CreatedAt)
	for _, name := range c.Group {
		if i := find("group", name); i >= 0 {
			p.group = append(p.group, i)
		}
	}
	for _, name := range t.Fields {
		if i := find("", name); i >= 0 {
			p.fields = append(p.fields, i)
		}
	}
	if c.ID == "" {
		missing = append(missing, "id")
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("read columns of %s: no column %s: add it to the table, "+
			"or name the right one under source.tables.columns: %w", p.table, strings.Join(missing, ", "), source.ErrStop)
	}
	return p, nil
}

// mandatory tells whether a message of the table cannot be read without the column. A column that the configuration
// names must be there. Of the columns that only the shape names, id, type, payload and what orders and
// addresses a message must be; in the shape tailbox all but id, type and payload are optional.
func mandatory(t *outbox.Table, key, name string) bool {
	switch key {
	case "id", "type", "payload", "":
		return true
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

// wantedColumns lists the names that a plan of the table looks for, each once.
func wantedColumns(t *outbox.Table) []string {
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
