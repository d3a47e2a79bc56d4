package usertable

import (
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// Written reports whether the relay writes to the table.
func (t *Table) Written() bool { return t.OnDelivered != outbox.Keep || t.View.Receipts }

// Assignments is the SET list of an UPDATE of a row t.
func (t *Table) Assignments() string {
	var set []string
	for _, s := range t.Sets() {
		set = append(set, s.Column+" = "+s.To)
	}
	return strings.Join(set, ", ")
}

// An assignment is what a column is set to: its quoted name, and SQL that looks at the row t and the values v.
type assignment struct{ Column, To string }

// Sets lists the columns to update that the table has, with their values from v. Texts are cast to the column's type, which cuts them to its length,
// and turns words into values of an enum or numbers. If there is nothing to show, a NOT NULL column keeps its value.
func (t *Table) Sets() (set []assignment) {
	c := &t.Columns
	assign := func(column, to string) { set = append(set, assignment{column, to}) }
	if t.View.Receipts {
		col := t.col(c.Receipt)
		assign(col, "(CASE WHEN v.receipt OPERATOR(pg_catalog.=) '' THEN t."+col+" WHEN coalesce(t."+col+", '') OPERATOR(pg_catalog.=) '' THEN v.receipt "+
			"ELSE pg_catalog.concat(t."+col+", E'\\n', v.receipt) END)::"+sqltext.Type(t.Types[c.Receipt]))
	}
	if t.OnDelivered == outbox.Keep {
		return set
	}
	if col := t.col(c.Status); col != "" {
		assign(col, t.byState(outbox.WordNames(), func(state string) string { return t.literal(*t.Words.Word(state), c.Status) }))
	}
	more := ""
	for _, count := range []struct{ name, now string }{{c.Failures, "v.failures"}, {c.Attempts, "v.attempts"}} {
		if col := t.col(count.name); col != "" {
			held := t.countSQL(count.name, count.now)
			assign(col, "CASE WHEN v.delivered THEN greatest(coalesce(t."+col+", 0), "+held+") ELSE "+held+" END")
			more = " OR " + count.now + " OPERATOR(pg_catalog.>) coalesce(t." + col + ", 0)"
		}
	}
	if col := t.col(c.LastAttemptAt); col != "" {
		assign(col, "CASE WHEN v.delivered"+more+" THEN pg_catalog.now() ELSE t."+col+" END")
	}
	if col := t.col(c.NextAttemptAt); col != "" {
		next := "v.next"
		if t.required[c.NextAttemptAt] {
			next = "coalesce(v.next, t." + col + ")"
		}
		assign(col, next)
	}
	if col := t.col(c.LastError); col != "" {
		text := "CASE WHEN v.err OPERATOR(pg_catalog.<>) '' THEN v.err END"
		if t.required[c.LastError] {
			text = "v.err"
		}
		assign(col, "("+text+")::"+sqltext.Type(t.Types[c.LastError]))
	}
	if col := t.col(c.DeliveredAt); col != "" {
		assign(col, "CASE WHEN v.delivered THEN pg_catalog.now() ELSE t."+col+" END")
	}
	if col := t.col(c.UpdatedAt); col != "" {
		assign(col, "pg_catalog.now()")
	}
	for _, name := range t.SetColumns() {
		assign(sqltext.Ident(name), t.setSQL(name))
	}
	return set
}

// byState is SQL for a value by the state of a row's change: to returns that of a state.
func (t *Table) byState(states []string, to func(state string) string) string {
	sql := "CASE"
	for _, state := range states {
		sql += " WHEN v.state" + sqltext.Equals + sqltext.Literal(state) + " THEN " + to(state)
	}
	return sql + " END"
}

// literal is SQL for a value of a column.
func (t *Table) literal(value, column string) string {
	return sqltext.Literal(value) + "::" + sqltext.Type(t.Types[column])
}

// setSQL is SQL for what a column that a state sets becomes; without a value for the state, what it is.
func (t *Table) setSQL(column string) string {
	var states []string
	values := map[string]string{}
	for i := range t.Set {
		if v := &t.Set[i]; v.Column == column {
			states = append(states, v.State)
			values[v.State] = t.setValue(v)
		}
	}
	sql := t.byState(states, func(state string) string { return values[state] })
	return strings.TrimSuffix(sql, " END") + " ELSE t." + sqltext.Ident(column) + " END"
}

// setValue is SQL for one value.
func (t *Table) setValue(v *outbox.SetValue) string {
	switch {
	case v.Null:
		return "NULL"
	case v.Now:
		return "pg_catalog.now()::" + sqltext.Type(t.Types[v.Column])
	}
	return t.literal(v.Value, v.Column)
}

// countSQL caps a count at the column's maximum, because the row must be written in any case.
func (t *Table) countSQL(column, count string) string {
	var digits, scale int
	if t.Bases[column] == "smallint" {
		return "least(" + count + ", 32767)"
	}
	if found, _ := fmt.Sscanf(t.Types[column], "numeric(%d,%d)", &digits, &scale); found == 2 && digits > scale {
		return "least(" + count + ", " + strings.Repeat("9", digits-scale) + ")"
	}
	return count
}
