package mongo

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// Error codes of the server.
const (
	codeUnauthorized       = 13
	codeNamespaceNotFound  = 26
	codeIllegalOperation   = 20
	codeMaxTimeExpired     = 50
	codeWriteConflict      = 112
	codeLockTimeout        = 24
	codeDuplicateKey       = 11000
	codeValidation         = 121
	codeSnapshotTooOld     = 239
	codeSnapshotUnavail    = 246
	codeInvalidResumeToken = 260
	codeChangeStreamFatal  = 280
	codeHistoryLost        = 286
	codeTooLarge           = 10334
	codeGrownTooLarge      = 17419 // of an update, and the next one too
	codeGrownTooLarge2     = 17420
	codeNotInTransaction   = 263
	codeImmutableField     = 66
	codeShardKeyInQuery    = 31025
	codeNamespaceExists    = 48
	codeNoChangeStream     = 40573
	codeInvalidOptions     = 72
	codeBadValue           = 2
	codeFailedToParse      = 9
	codeTypeMismatch       = 14
)

func errNoTables() error { return checkpoint.ErrNoTables }

// hasCode tells whether the server answered with one of the codes.
func hasCode(err error, codes ...int) bool {
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

// hasLabel tells whether an error has a label, such as TransientTransactionError.
func hasLabel(err error, label string) bool {
	var le mongo.LabeledError
	return errors.As(err, &le) && le.HasErrorLabel(label)
}

// refusal is what the server said where it refused a command for what that says; "" for all else.
func refusal(err error) string {
	if hasLabel(err, transientLabel) || !hasCode(err, codeValidation, codeDuplicateKey, codeUnauthorized, codeTooLarge, codeGrownTooLarge,
		codeBadValue, codeFailedToParse, codeTypeMismatch, codeImmutableField) {
		return ""
	}
	var se mongo.ServerError
	errors.As(err, &se)
	return se.Error()
}

// fault says what was done when err came up. Errors that come back however often it is tried again match source.ErrStop, and
// hold the cure; those of the connection are left as they are.
func fault(doing string, err error) error {
	stop := func(cure string) error { return fmt.Errorf("%w: %s: %w: %s", source.ErrStop, doing, err, cure) }
	switch {
	case err == nil:
		return nil
	case errors.Is(err, source.ErrStop):
		return fmt.Errorf("%s: %w", doing, err)
	case hasCode(err, codeUnauthorized):
		return stop("grant the user what `tailbox check` names")
	case hasCode(err, 18): // AuthenticationFailed
		return stop("correct the user and password in source.url, and authSource")
	case hasCode(err, codeValidation):
		return stop("the collection's validator refuses what the relay writes: correct source.tables (status words, columns), or the validator")
	case hasCode(err, codeNoChangeStream), hasCode(err, codeIllegalOperation):
		return stop("the relay needs a replica set or a sharded cluster: start mongod with --replSet, and run rs.initiate() once")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// rowFault is fault for a change of a table's documents: it knows what the server refuses because of how the collection was made,
// or of what is in it. A transient error is left to be tried again.
func rowFault(t *outbox.Table, err error) error {
	stop := func(cure string) error { return fmt.Errorf("%w: collection %s: %w: %s", source.ErrStop, t, err, cure) }
	switch {
	case err == nil:
		return nil
	case hasLabel(err, transientLabel):
	case hasCode(err, codeNotInTransaction, codeIllegalOperation): // which of them depends on the version, and on the command
		return stop("no transaction may change a capped collection: use one that is not capped")
	case hasCode(err, codeDuplicateKey):
		return stop("drop the unique index, or leave the fields that the relay writes to (status and others under source.tables.columns) " +
			"out of it, or set on_delivered: delete")
	case hasCode(err, codeImmutableField, codeInvalidOptions, codeShardKeyInQuery):
		return stop("a field that the relay writes to (status and others under source.tables.columns) is part of the shard key: " +
			"shard the collection by other fields, or set on_delivered: delete")
	case hasCode(err, codeTooLarge, codeGrownTooLarge, codeGrownTooLarge2):
		return stop("with its mark a document would have more than 16 MiB: find it by {$expr: {$gt: [{$bsonSize: \"$$ROOT\"}, 16700000]}} and " +
			"make it smaller, or set on_delivered: delete")
	}
	return fmt.Errorf("collection %s: %w", t, err)
}
