// Package pgerr says what errors of a Postgres server mean to the relay: whether to try again, to stop and ask an operator, and what helps.
package pgerr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// Fault says what was done when err came up. Errors that come back however often the session is opened anew match
// source.ErrStop, and hold the fix; those of the connection are left as they are.
func Fault(doing string, err error) error {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	stop := func(fix string) error { return fmt.Errorf("%w: %s: %w: %s", source.ErrStop, doing, err, fix) }
	switch {
	case pe.Code == "42501" && pe.Routine == "check_enable_rls": // the message may be in any language
		return stop("ALTER ROLE name BYPASSRLS, or let the role own the table, so that row-level security hides no row from tailbox")
	case pe.Code == "42501":
		return stop("grant the role what `tailbox check` names")
	case pe.Code == NoSuchTable && strings.Contains(pe.Message, "tailbox_"):
		return fmt.Errorf("%w: %s: %w", source.ErrStop, doing, checkpoint.ErrNoTables)
	case pe.Code == "42703" && strings.Contains(pe.Message, "tailbox_"):
		return stop("run tailbox init, which brings the relay's tables up to date")
	case pe.Code == NoSuchTable:
		return fmt.Errorf("%w: %s: %w: correct source.tables, or create what is missing", source.ErrNoTable, doing, err)
	case pe.Code == "42703" || pe.Code == "3F000":
		return stop("correct source.tables, or create what is missing")
	case pe.Code == "42804" || pe.Code == "42883":
		return stop("the type of a column does not fit: see `tailbox check`, and restart after ALTER TABLE")
	case LacksCharacter(err):
		return stop("a text has a character that the database's encoding (SHOW server_encoding) or UTF-8 lacks: write it without that in the " +
			"configuration (topics, status words), in the request, or in the row")
	case strings.HasPrefix(pe.Code, "22"), strings.HasPrefix(pe.Code, "23"):
		return stop("the table refuses what on_delivered writes: correct source.tables (status words, columns)")
	case pe.Code == "P0001":
		return stop("a trigger refuses what on_delivered does")
	case pe.Code == "55000" && strings.Contains(pe.Hint, "REPLICA IDENTITY"), pe.Code == "42P10":
		return stop("a publication publishes updates or deletes of the table: give the table a primary key or REPLICA IDENTITY FULL, or let that publication " +
			"publish inserts alone, without a filter on rows")
	case pe.Code[:2] != "55" && Refusal(err) != "": // errors of class 55 can also come from the server's state
		return stop("the server refuses what on_delivered does: correct the table (its triggers, constraints and publications), or source.tables")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// NoSuchTable is the SQLSTATE of a name that is no relation.
const NoSuchTable = "42P01"

// LockNotAvailable is the SQLSTATE of lock_timeout and NOWAIT.
const LockNotAvailable = "55P03"

// Passing reports whether a transaction failed because of others that ran at the same time: trying it again can help.
func Passing(err error) bool {
	switch State(err) {
	case LockNotAvailable, "40P01", "40001": // or a deadlock, or a row that a concurrent update moved to another partition
		return true
	}
	return false
}

// Refusal returns the server's message if it rejected a statement for its content; "" otherwise. A trigger's author can raise any SQLSTATE, so
// Refusal lists only the classes that concern the server or the session: all others are refusals.
func Refusal(err error) string {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || len(pe.Code) != 5 || Passing(err) || StalePlan(err) {
		return ""
	}
	switch pe.Code[:2] {
	case "08", "25", "28", "40", "53", "57", "58", "72", "XX": // connection, a standby, rollback, resources, shutdown, disk, internal
		return ""
	}
	return store.Said(err, pe)
}

// LacksCharacter reports whether a text cannot be turned from one encoding into another.
func LacksCharacter(err error) bool {
	switch State(err) {
	case "22P05", "22021": // untranslatable_character, character_not_in_repertoire
		return true
	}
	return false
}

// Unsendable explains the error of a server that cannot send a row. It matches source.ErrStop, because each retry would fail.
func Unsendable(err error) error {
	if !LacksCharacter(err) {
		return err
	}
	return fmt.Errorf("%w: a text of a row has bytes that are no character of the database's encoding, or a character that UTF-8 lacks: correct or "+
		"delete that row: %w", err, source.ErrStop)
}

// StalePlan reports whether a prepared statement no longer fits its table, because that was altered.
func StalePlan(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "0A000" && strings.Contains(pe.Routine, "RevalidateCachedQuery")
}

// State is the SQLSTATE of a server's error, or "".
func State(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}
