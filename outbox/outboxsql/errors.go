package outboxsql

import (
	"reflect"
	"slices"
)

// Errors of MySQL and MariaDB, and states of Postgres.
const (
	mysqlDuplicate   = 1062
	mysqlDeadlock    = 1213
	mysqlLockTimeout = 1205
	// mysqlRecord is MariaDB's "record has changed since last read" (innodb_snapshot_isolation).
	mysqlRecord       = 1020
	serializationFail = "40001"
	deadlockDetected  = "40P01"
	// Answers to a savepoint where no transaction was begun.
	mysqlNoSavepoint = 1305
	noTransaction    = "25P01"
)

// isDuplicate reports whether an error of MySQL is that of a duplicate key.
func isDuplicate(err error) bool {
	_, number := code(err)
	return number == mysqlDuplicate
}

// Retryable reports whether a transaction failed only because another one ran beside it, so that all of it can be done again:
// serialization failures (40001) and deadlocks (40P01) of Postgres, deadlocks (1213) and lock timeouts (1205) of MySQL.
func Retryable(err error) bool {
	state, number := code(err)
	return state == serializationFail || state == deadlockDetected || slices.Contains([]uint64{mysqlDeadlock, mysqlLockTimeout, mysqlRecord}, number)
}

// code finds the state or number that a driver's error carries. Drivers of Postgres have a method for it; those of MySQL have a field,
// Number or Code. Importing them all to know their types would make every application build them.
func code(err error) (state string, number uint64) {
	if err == nil {
		return "", 0
	}
	if e, ok := err.(interface{ SQLState() string }); ok {
		return e.SQLState(), 0
	}
	if n := numberOf(err); n != 0 {
		return "", n
	}
	switch e := err.(type) { //nolint:errorlint // This walk goes through all that err wraps, as errors.As would.
	case interface{ Unwrap() error }:
		return code(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if state, number := code(one); state != "" || number != 0 {
				return state, number
			}
		}
	}
	return "", 0
}

func numberOf(err error) uint64 {
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return 0
	}
	for _, name := range []string{"Number", "Code"} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.Uint16 {
			return f.Uint()
		}
	}
	return 0
}
