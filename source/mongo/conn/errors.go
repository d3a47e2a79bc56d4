package conn

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// Error codes of the server.
const (
	CodeUnauthorized       = 13
	CodeNamespaceNotFound  = 26
	CodeIllegalOperation   = 20
	CodeMaxTimeExpired     = 50
	CodeWriteConflict      = 112
	CodeLockTimeout        = 24
	CodeDuplicateKey       = 11000
	CodeValidation         = 121
	CodeSnapshotTooOld     = 239
	CodeSnapshotUnavail    = 246
	CodeInvalidResumeToken = 260
	CodeChangeStreamFatal  = 280
	CodeHistoryLost        = 286
	CodeTooLarge           = 10334
	CodeGrownTooLarge      = 17419 // of an update, and the next one too
	CodeGrownTooLarge2     = 17420
	CodeNotInTransaction   = 263
	CodeImmutableField     = 66
	CodeShardKeyInQuery    = 31025
	CodeNamespaceExists    = 48
	CodeNoChangeStream     = 40573
	CodeInvalidOptions     = 72
	CodeBadValue           = 2
	CodeFailedToParse      = 9
	CodeTypeMismatch       = 14
)

// TransientLabel marks an error after which nothing of a transaction was done, so that it can be tried again.
const TransientLabel = "TransientTransactionError"

// HasCode reports whether the server answered with one of the codes.
func HasCode(err error, codes ...int) bool {
	var se mongo.ServerError
	if !errors.As(err, &se) {
		return false
	}
	for _, code := range codes {
		if se.HasErrorCode(code) {
			return true
		}
	}
	return false
}

// HasLabel reports whether an error has a label, such as TransientTransactionError.
func HasLabel(err error, label string) bool {
	var le mongo.LabeledError
	return errors.As(err, &le) && le.HasErrorLabel(label)
}

// Refusal is what the server said where it refused a command for what that says; "" for all else.
func Refusal(err error) string {
	if HasLabel(err, TransientLabel) || !HasCode(err, CodeValidation, CodeDuplicateKey, CodeUnauthorized, CodeTooLarge, CodeGrownTooLarge,
		CodeBadValue, CodeFailedToParse, CodeTypeMismatch, CodeImmutableField) {
		return ""
	}
	var se mongo.ServerError
	errors.As(err, &se)
	return se.Error()
}

// Fault says what was done when err came up. Errors that come back however often it is tried again match source.ErrStop, and
// hold the fix; those of the connection are left as they are.
func Fault(doing string, err error) error {
	stop := func(fix string) error { return fmt.Errorf("%w: %s: %w: %s", source.ErrStop, doing, err, fix) }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, source.ErrStop):
		return fmt.Errorf("%s: %w", doing, err)
	case HasCode(err, CodeUnauthorized):
		return stop("grant the user what `tailbox check` names")
	case strings.Contains(err.Error(), "AuthenticationFailed"): // the driver hides the code; tried again, since a password may be about to change
		return fmt.Errorf("%s: %w: correct the user and password in source.url, and authSource", doing, err)
	case HasCode(err, CodeValidation):
		return stop("the collection's validator refuses what the relay writes: correct source.tables (status words, columns), or the validator")
	case HasCode(err, CodeNoChangeStream), HasCode(err, CodeIllegalOperation):
		return stop("the relay needs a replica set or a sharded cluster: start mongod with --replSet, and run rs.initiate() once")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// RowFault is Fault for a change of a table's documents: it knows what the server refuses because of how the collection was made,
// or of what is in it. A transient error is left to be tried again.
func RowFault(t *outbox.Table, err error) error {
	stop := func(fix string) error { return fmt.Errorf("%w: collection %s: %w: %s", source.ErrStop, t, err, fix) }
	switch {
	case err == nil:
		return nil
	case HasLabel(err, TransientLabel):
	case HasCode(err, CodeNotInTransaction, CodeIllegalOperation): // which of them depends on the version, and on the command
		return stop("no transaction may change a capped collection: use one that is not capped")
	case HasCode(err, CodeDuplicateKey):
		return stop("drop the unique index, or leave the fields that the relay writes to (status and others under source.tables.columns) " +
			"out of it, or set on_delivered: delete")
	case HasCode(err, CodeImmutableField, CodeInvalidOptions, CodeShardKeyInQuery):
		return stop("a field that the relay writes to (status and others under source.tables.columns) is part of the shard key: " +
			"shard the collection by other fields, or set on_delivered: delete")
	case HasCode(err, CodeTooLarge, CodeGrownTooLarge, CodeGrownTooLarge2):
		return stop("with its mark a document would have more than 16 MiB: find it by {$expr: {$gt: [{$bsonSize: \"$$ROOT\"}, 16700000]}} and " +
			"make it smaller, or set on_delivered: delete")
	}
	return fmt.Errorf("collection %s: %w", t, err)
}
