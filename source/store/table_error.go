package store

import (
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/source"
)

// NoTable returns the error for a configured table that does not exist. name is quoted as the database quotes it.
func NoTable(name string) error {
	return fmt.Errorf("%w: table %s does not exist: create it (tailbox init does where the shape is debezium or tailbox), or correct source.tables",
		source.ErrNoTable, name)
}

// tableError is an error of a statement about a user's table.
type tableError struct {
	table string
	err   error
}

func (e *tableError) Error() string { return "table " + e.table + ": " + e.err.Error() }
func (e *tableError) Unwrap() error { return e.err }

// OnTable says which table a statement was about; nil stays nil.
func OnTable(table string, err error) error {
	if err == nil {
		return nil
	}
	return &tableError{table, err}
}

// Said returns what the server said. If OnTable wrapped err, Said puts the table's name before it.
func Said(err, server error) string {
	var te *tableError
	if errors.As(err, &te) {
		return te.Error()
	}
	return server.Error()
}
