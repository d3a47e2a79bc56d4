package mysql

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Numbers of the server's errors.
const (
	errTableDenied    = 1142
	errColumnDenied   = 1143
	errAccessDenied   = 1044
	errProcDenied     = 1370
	errSpecificDenied = 1227
	errNoSuchTable    = 1146
	errNoSuchDatabase = 1049
	errNoSuchColumn   = 1054
	errLockWait       = 1205 // also of a metadata lock, and in MariaDB of NOWAIT
	errDeadlock       = 1213
	errNoWait         = 3572
	errChangedSince   = 1020
	errSignal         = 1644
	errSyntax         = 1064
	errNoSavepoint    = 1305
	errUserLimit      = 1226
	errNoDefault      = 1364
	errTriggersTable  = 1442 // a trigger changes the table that it is on
	errViewCheck      = 1369
	errNoDefiner      = 1449
	errRowReferenced  = 1217
	errRowReferenced2 = 1451
)

// errLost: the session lives, and the lock is not its own. Somebody between the relay and the server has changed the
// session (a proxy that reconnects), or another server of a cluster has given the lock to another relay.
var errLost = errors.New("the session has lost the pipeline's lock")

// storeFault says what was done when err came up. Errors that come back however often the session is opened anew match
// source.ErrStop, and hold the cure; those of the connection are left as they are.
func storeFault(doing string, err error) error {
	answer := serverError(err)
	if answer == nil || errors.Is(err, source.ErrStop) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	stop := func(cure string) error { return fmt.Errorf("%w: %s: %w: %s", source.ErrStop, doing, err, cure) }
	own := strings.Contains(answer.Message, "tailbox_")
	switch code := answer.Code; {
	case code == errTableDenied, code == errColumnDenied, code == errAccessDenied, code == errProcDenied, code == errSpecificDenied:
		return stop("grant the account what `tailbox check` names")
	case code == errNoSuchTable && own:
		return fmt.Errorf("%w: %s: %w", source.ErrStop, doing, checkpoint.ErrNoTables)
	case code == errNoSuchColumn && own:
		return stop("run tailbox init, which brings the relay's tables up to date")
	case code == errNoSuchTable:
		return fmt.Errorf("%w: %s: %w: correct source.tables, or create what is missing", source.ErrNoTable, doing, err)
	case code == errNoSuchColumn, code == errNoSuchDatabase:
		return stop("correct source.tables, or create what is missing")
	case code == errSignal:
		return stop("a trigger refuses what on_delivered does")
	case code == errRowReferenced || code == errRowReferenced2:
		return stop("rows of another table refer to the outbox row by a FOREIGN KEY: drop that key, or give it ON DELETE CASCADE")
	case refusedValue(err):
		return stop("the table refuses what is to be written: correct source.tables (status words, columns)")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// refusedValue tells whether a statement failed because of the values that it writes, or their types.
func refusedValue(err error) bool {
	e := serverError(err)
	// 21, 22, 23: cardinality, data, constraint. 01000 is what strict mode makes of a warning: data truncated.
	return e != nil && (strings.HasPrefix(e.State, "22") || strings.HasPrefix(e.State, "23") || e.State == "01000" ||
		e.Code == 1366 || e.Code == 1265 || e.Code == 3819 || e.Code == 4025)
}

// refusal is what the server said where it refused a statement for what that says; "" for all else.
func refusal(err error) string {
	e := serverError(err)
	if e == nil || passingTrouble(err) || e.Code == errUserLimit {
		return ""
	}
	switch e.Code {
	case errSignal, errNoDefault, errTriggersTable, errViewCheck, errNoDefiner:
	default:
		// 42: names, privileges; 44: a view; 45: what a trigger raises.
		if s := e.State; !refusedValue(err) && !strings.HasPrefix(s, "42") && !strings.HasPrefix(s, "44") && !strings.HasPrefix(s, "45") {
			return ""
		}
	}
	return store.Said(err, e)
}

// passingTrouble tells whether a transaction failed because of others that ran at the same time: trying it again can help.
func passingTrouble(err error) bool {
	switch errorCode(err) {
	case errLockWait, errDeadlock, errNoWait, errChangedSince:
		return true
	}
	return false
}

// staleTable tells whether a statement may have failed because its table was altered since it was looked up.
func staleTable(err error) bool {
	return errorCode(err) == errNoSuchColumn || refusedValue(err)
}
