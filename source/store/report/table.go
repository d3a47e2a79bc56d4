package report

import (
	"slices"
	"strings"
)

// A Table is what a database says about a table that somebody else made, with what some of its rows hold.
type Table struct {
	Schema, Name string
	Columns      []Column
	// Unique are the columns of the unique indexes of all rows, that of the primary key first. Primary: there is a primary key.
	Unique  [][]string
	Primary bool
	// Parent is the table of which it is a partition; "" for none.
	Parent string
	// Checks are the CHECK constraints of several columns, as Postgres prints them; none is read from other servers.
	Checks []string
	// Quote begins and ends a quoted name in a statement.
	Quote string
	// Rows is how many rows were looked at; none tells nothing about how many there are.
	Rows int
}

// A Column of a Table.
type Column struct {
	Name string
	// Type is the database's name of the type, and Class what values of it are.
	Type    string
	Class   Class
	NotNull bool
	// Default is the expression of the default, "" for none. Numbered: the server draws numbers that grow.
	Default  string
	Numbered bool
	// Touched: the server sets it whenever the row changes.
	Touched bool
	// Generated: the server computes the value from other columns, and nobody can write it.
	Generated bool
	// Checks are the CHECK constraints of this column alone, as the server prints them. Labels are those of an enum.
	Checks, Labels []string
	// Values are the values of a column that has few, the most frequent first. Sample has some values, each once, cut to SampleLength: their text, or
	// the bytes of a Binary.
	Values []Value
	Sample []string
	// Nulls are how many of the rows that were looked at have NULL there. Ahead: one has a time that is still to come.
	Nulls int
	Ahead bool
}

// A Value is the text of a value, and how many of the rows that were looked at have it.
type Value struct {
	Text string
	Rows int
}

// A Class is what values of a type are.
type Class int

// Classes of types. LocalTime is a time without a zone.
const (
	Other Class = iota
	Text
	Number
	Bool
	Time
	LocalTime
	JSON
	Binary
	UUID
)

// Bounds of what is looked at.
const (
	// SampleRows are the rows of which values are read.
	SampleRows = 200
	// SampleLength is how much of a value is read: characters of a text, and bytes of a Binary.
	SampleLength = 200
	// CountedRows are those of which the values of a column with few are counted.
	CountedRows = 100_000
	// HoursAhead is how far a time without a zone must lie ahead to be still to come wherever it was written.
	HoursAhead = 14
	// FewValues is how many different values such a column has at most.
	FewValues = 12
)

// Quoted is a name as it stands in a statement.
func (t *Table) Quoted(name string) string {
	plain := strings.IndexFunc(name, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') }) < 0
	if plain && name != "" && name[0] >= 'a' && !slices.Contains([]string{"key", "group", "order", "offset", "table", "user", "type", "status"}, name) {
		return name
	}
	return t.Quote + strings.ReplaceAll(name, t.Quote, t.Quote+t.Quote) + t.Quote
}

// Look adds a value of the sample.
func (c *Column) Look(text string) {
	if len(c.Sample) <= FewValues && !slices.Contains(c.Sample, text) {
		c.Sample = append(c.Sample, text)
	}
}

// Count has the values of each column counted of which that is worth it: they are few, and no row is found by them. read returns at most FewValues+1 of a column,
// the most frequent first.
func (t *Table) Count(read func(c *Column) ([]Value, error)) error {
	for i := range t.Columns {
		c := &t.Columns[i]
		if t.Rows == 0 || len(c.Sample) > FewValues || c.Class != Text && c.Class != Number && c.Class != Bool ||
			slices.ContainsFunc(t.Unique, func(unique []string) bool { return len(unique) == 1 && unique[0] == c.Name }) {
			continue
		}
		values, err := read(c)
		if err != nil {
			return err
		}
		if len(values) <= FewValues {
			c.Values = values
		}
	}
	return nil
}
