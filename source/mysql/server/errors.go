package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Wrap says what was done when err came up; nil for no error.
func Wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Numbers of the server's errors.
const (
	CodeTableDenied    = 1142
	CodeColumnDenied   = 1143
	CodeDatabaseDenied = 1044
	CodeProcDenied     = 1370
	CodeSpecificDenied = 1227
	CodeNoSuchTable    = 1146
	CodeNoSuchDatabase = 1049
	CodeNoSuchColumn   = 1054
	CodeLockWait       = 1205 // also of a metadata lock, and in MariaDB of NOWAIT
	CodeDeadlock       = 1213
	codeNoWait         = 3572
	CodeChangedSince   = 1020
	codeSignal         = 1644
	CodeSyntax         = 1064
	CodeNoSavepoint    = 1305
	codeUserLimit      = 1226
	codeNoDefault      = 1364
	codeTriggersTable  = 1442 // a trigger changes the table that it is on
	codeViewCheck      = 1369
	codeNoDefiner      = 1449
	codeRowReferenced  = 1217
	codeRowReferenced2 = 1451
	CodeAccessDenied   = 1045
	CodeNeedPrivilege  = 1227
	CodeFatalDump      = 1236
	CodeSlaveSameID    = 4052
	CodeDuplicateKey   = 1062
	codeServerOption   = 1290 // an option of the server forbids the statement
	// CodeCannotConvert is what MySQL answers with while the statement of any transaction on the list has characters of four bytes, or
	// bytes that are none.
	CodeCannotConvert = 3854
)

// ErrReadOnly is the state of a replica, and of a primary while it is being switched over.
var ErrReadOnly = errors.New("the server is read-only: it is a replica, or being switched over: source.url must lead to the primary")

// Fault says what was done when err came up. Errors that come back however often the session is opened anew match
// source.ErrStop, and hold the fix; those of the connection are left as they are.
func Fault(doing string, err error) error {
	answer := Answer(err)
	if answer == nil || errors.Is(err, source.ErrStop) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	stop := func(fix string) error { return fmt.Errorf("%w: %s: %w: %s", source.ErrStop, doing, err, fix) }
	own := strings.Contains(answer.Message, "tailbox_")
	switch code := answer.Code; {
	case code == CodeTableDenied, code == CodeColumnDenied, code == CodeDatabaseDenied, code == CodeProcDenied, code == CodeSpecificDenied:
		return stop("grant the account what `tailbox check` names")
	case code == CodeNoSuchTable && own:
		return fmt.Errorf("%w: %s: %w", source.ErrStop, doing, checkpoint.ErrNoTables)
	case code == CodeNoSuchColumn && own:
		return stop("run tailbox init, which brings the relay's tables up to date")
	case code == CodeNoSuchTable:
		return fmt.Errorf("%w: %s: %w: correct source.tables, or create what is missing", source.ErrNoTable, doing, err)
	case code == CodeNoSuchColumn, code == CodeNoSuchDatabase:
		return stop("correct source.tables, or create what is missing")
	case code == codeServerOption && strings.Contains(answer.Message, "read-only"):
		return fmt.Errorf("%s: %w: %w", doing, ErrReadOnly, err)
	case code == codeSignal:
		return stop("a trigger refuses what on_delivered does")
	case code == codeRowReferenced || code == codeRowReferenced2:
		return stop("rows of another table refer to the outbox row by a FOREIGN KEY: drop that key, or give it ON DELETE CASCADE")
	case refusedValue(err):
		return stop("the table refuses what is to be written: correct source.tables (status words, columns)")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// refusedValue reports whether a statement failed because of the values that it writes, or their types.
func refusedValue(err error) bool {
	e := Answer(err)
	// 21, 22, 23: cardinality, data, constraint. 01000 is what strict mode makes of a warning: data truncated.
	return e != nil && (strings.HasPrefix(e.State, "22") || strings.HasPrefix(e.State, "23") || e.State == "01000" ||
		e.Code == 1366 || e.Code == 1265 || e.Code == 3819 || e.Code == 4025)
}

// Refusal is what the server said where it refused a statement for what that says; "" for all else.
func Refusal(err error) string {
	e := Answer(err)
	if e == nil || Passing(err) || e.Code == codeUserLimit {
		return ""
	}
	switch e.Code {
	case codeSignal, codeNoDefault, codeTriggersTable, codeViewCheck, codeNoDefiner:
	default:
		// 42: names, privileges; 44: a view; 45: what a trigger raises.
		if s := e.State; !refusedValue(err) && !strings.HasPrefix(s, "42") && !strings.HasPrefix(s, "44") && !strings.HasPrefix(s, "45") {
			return ""
		}
	}
	return store.Said(err, e)
}

// Passing reports whether a transaction failed because of others that ran at the same time: trying it again can help.
func Passing(err error) bool {
	switch Code(err) {
	case CodeLockWait, CodeDeadlock, codeNoWait, CodeChangedSince:
		return true
	}
	return false
}

// Stale reports whether a statement may have failed because its table was altered since it was looked up.
func Stale(err error) bool {
	return Code(err) == CodeNoSuchColumn || refusedValue(err)
}
