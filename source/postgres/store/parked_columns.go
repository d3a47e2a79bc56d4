package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/store"
)

// What follows makes columns and parameters out of the fields of a store.ParkedRow.

// ParkedColumns are what a parkedScanner reads, of alias p.
func ParkedColumns() string {
	var list []string
	for _, c := range new(store.ParkedRow).Columns() {
		sql := "p." + c.Name
		if _, ok := c.To.(store.JSON); ok {
			sql += "::text"
		}
		list = append(list, sql)
	}
	return strings.Join(list, ", ") + ", now()"
}

// bareColumns are ParkedColumns without payloads.
func bareColumns() string { return strings.Replace(ParkedColumns(), "p.payload", "NULL::bytea", 1) }

// A parkedScanner reads rows of ParkedColumns, one after the other, into row. now is the server's time.
type parkedScanner struct {
	row     store.ParkedRow
	now     time.Time
	bound   []store.Column
	targets []any
	texts   []*string // of columns of JSON
}

func newParkedScanner() *parkedScanner {
	s := &parkedScanner{}
	s.bound = s.row.Columns()
	s.texts = make([]*string, len(s.bound))
	for i, c := range s.bound {
		switch to := c.To.(type) {
		case store.JSON:
			s.targets = append(s.targets, &s.texts[i])
		case *time.Time:
			s.targets = append(s.targets, (*orZeroTime)(to))
		case *string:
			s.targets = append(s.targets, (*orEmptyText)(to))
		default:
			s.targets = append(s.targets, to)
		}
	}
	s.targets = append(s.targets, &s.now)
	return s
}

func (s *parkedScanner) scan(rows pgx.Rows) error {
	s.row = store.ParkedRow{}
	if err := rows.Scan(s.targets...); err != nil {
		return err
	}
	for i, c := range s.bound {
		if to, ok := c.To.(store.JSON); ok {
			if err := to.Read(s.texts[i]); err != nil {
				return s.row.Unreadable(err)
			}
		}
	}
	return nil
}

// CollectParked reads all rows of a query for ParkedColumns.
func CollectParked(rows pgx.Rows) ([]checkpoint.Parked, error) {
	var out []checkpoint.Parked
	defer rows.Close()
	s := newParkedScanner()
	for rows.Next() {
		if err := s.scan(rows); err != nil {
			return nil, err
		}
		p, err := s.row.Delivery(s.now)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// orEmptyText is a text that is empty if the column is NULL.
type orEmptyText string

// ScanText implements pgtype.TextScanner.
func (t *orEmptyText) ScanText(v pgtype.Text) error {
	*t = orEmptyText(v.String)
	return nil
}

// orZeroTime is a time that is zero if the column is NULL.
type orZeroTime time.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t *orZeroTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	*t = orZeroTime(v.Time)
	return nil
}

// timestamp is a time for a column that may be NULL; the zero time is NULL.
func timestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// parameterType is the type by which the server takes a column's value.
func parameterType(c *store.Column) string {
	switch c.To.(type) {
	case *bool:
		return "bool"
	case *int, *int32:
		return "int"
	case *int64:
		return "bigint"
	case *[]byte:
		return "bytea"
	case *time.Time:
		return "timestamptz"
	}
	return "text"
}

// parameterValue returns the SQL that turns a parameter of parameterType into the column's value.
func parameterValue(c *store.Column, parameter string) string {
	_, isJSON := c.To.(store.JSON)
	_, isText := c.To.(*string)
	switch {
	case isJSON:
		return parameter + "::json"
	case isText && c.Null:
		return "nullif(" + parameter + ", '')"
	}
	return parameter
}

// unnest returns the SQL that makes rows, with the alias v, out of one array for each column: parameter $first and those after it.
func unnest(columns []store.Column, first int) string {
	arrays, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		arrays[i], names[i] = fmt.Sprintf("$%d::%s[]", first+i, parameterType(&c)), c.Name
	}
	return "unnest(" + strings.Join(arrays, ", ") + ") AS v (" + strings.Join(names, ", ") + ")"
}

// rowArrays are the arrays that unnest takes. A row is put into row, and appended.
type rowArrays struct {
	row      store.ParkedRow
	bound    []store.Column
	arrays   []any
	encoding session.Encoding
}

func (a *rowArrays) bind(columns []store.Column) {
	a.bound, a.arrays = columns, make([]any, len(columns))
}

func (a *rowArrays) appendRow() {
	for i := range a.bound {
		a.arrays[i] = appendValue(a.encoding, a.arrays[i], &a.bound[i])
	}
}

// appendValue appends what the column's field holds to values, a slice of its type or nil.
func appendValue(e session.Encoding, values any, c *store.Column) any {
	switch to := c.To.(type) {
	case store.JSON:
		return with(values, e.FitJSON(to.Text()))
	case *time.Time:
		return with(values, timestamp(*to))
	case *string:
		if c.Kind == store.Note { // all other texts are the database's own
			return with(values, e.Fit(*to))
		}
		return with(values, *to)
	case *int:
		return with(values, int32(*to))
	case *int32:
		return with(values, *to)
	case *int64:
		return with(values, *to)
	case *bool:
		return with(values, *to)
	case *[]byte:
		return with(values, *to)
	}
	return values
}

func with[T any](values any, v T) any {
	list, _ := values.(*[]T)
	if list == nil {
		list = new([]T)
	}
	*list = append(*list, v)
	return list
}
