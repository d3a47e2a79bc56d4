package prepare

import (
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
)

// Columns of an outbox table are pairs of a configuration key and a definition. "." and a name stand for a column that the relay has no use for.
type Columns [][2]string

// Before returns the columns, and those of rest that they do not define.
func (cs Columns) Before(rest Columns) Columns {
	for _, d := range rest {
		if !slices.ContainsFunc(cs, func(c [2]string) bool { return c[0] == d[0] }) {
			cs = append(cs, d)
		}
	}
	return cs
}

// Lines are the columns in CREATE TABLE, with their configured names. A column that serves twice is defined once. The table's fields are of the
// type text.
func (cs Columns) Lines(t *outbox.Table, quote func(string) string, text string) (lines []string, err error) {
	if t.Columns.ID == "" || t.Columns.Payload == "" {
		return nil, fmt.Errorf("make table %s: shape %s needs columns id and payload", t.Name, t.Shape)
	}
	seen := map[string]bool{"": true}
	add := func(name, definition string) {
		if !seen[name] {
			seen[name] = true
			lines = append(lines, "\t"+quote(name)+" "+definition)
		}
	}
	for _, c := range cs {
		for _, name := range ColumnNames(t, c[0]) {
			add(name, c[1])
		}
	}
	for _, name := range t.Fields {
		add(name, text)
	}
	return lines, nil
}

// ColumnNames are the configured names of the columns of a key.
func ColumnNames(t *outbox.Table, key string) []string {
	switch {
	case key[0] == '.':
		return []string{key[1:]}
	case key == "group":
		return t.Columns.Group
	}
	return []string{*t.Columns.Field(key)}
}

// Deletes reports whether the relay deletes rows of the table.
func Deletes(t *outbox.Table) bool {
	return t.OnDelivered == outbox.Delete || t.OnDelivered == outbox.Mark && t.Retention > 0
}

// Privileges are what the relay does with the table. SELECT is for sweeps and for comparing it with the log. update is the right
// to update that on_delivered: delete needs, if any.
func Privileges(t *outbox.Table, update ...string) []string {
	switch {
	case t.OnDelivered == outbox.Delete:
	case t.OnDelivered == outbox.Mark || t.Columns.Receipt != "":
		update = []string{"UPDATE"}
	default:
		update = nil
	}
	list := append([]string{"SELECT"}, update...)
	if Deletes(t) {
		list = append(list, "DELETE")
	}
	if t.Writes {
		list = append(list, "INSERT")
	}
	return list
}

// MarkColumns are the configured columns that show what becomes of a message.
func MarkColumns(t *outbox.Table) []string {
	var all []string
	for _, key := range outbox.MarkNames() {
		all = append(all, *t.Columns.Field(key))
	}
	all = append(all, t.SetColumns()...)
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}
