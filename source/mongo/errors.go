package mongo

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
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
	codeNamespaceExists    = 48
	codeNoChangeStream     = 40573
	codeInvalidOptions     = 72
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
