// Package operate is what the commands of tailbox ask of a pipeline's database: a Database for each kind, and the Operator, who looks at what
// is parked and asks for changes.
package operate

import (
	"context"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Database is what the commands of tailbox ask of the database of a pipeline. The configuration of each kind implements it. Each method connects by itself.
type Database interface {
	// Source reads messages, from the log or by polling.
	Source() source.Source
	// Open opens the store and takes the lock. It fails with checkpoint.ErrLocked if another relay has it.
	Open(ctx context.Context) (checkpoint.Store, error)
	// Operator looks at what is parked, and asks for changes.
	Operator() Operator

	// SetupScript is what Init makes, for a migration tool. Init makes what is missing, and returns what it did.
	SetupScript() (string, error)
	Init(ctx context.Context) (done []string, err error)
	// FirstMade names what the first Establish makes beside the checkpoint, such as "slot s and ".
	FirstMade() string
	// UninstallScript is what Uninstall does. Uninstall returns what it dropped, and what it left because somebody else may have made it.
	UninstallScript() (string, error)
	Uninstall(ctx context.Context, force bool) (dropped, left []string, err error)

	// Check returns what is wrong with the server, its tables and the rights.
	Check(ctx context.Context) ([]check.Finding, error)
	// Settings reads the server's version, and those of its settings that the relay depends on.
	Settings(ctx context.Context) ([]report.Setting, error)
	// Example returns the message of a row of the table; nil if there is no row.
	Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error)
	// Describe reads what the server says about a table, and some of its rows. Schema "" is that of the connection.
	Describe(ctx context.Context, schema, name string) (*report.Table, error)
	// Status reads the state of the pipeline. Gap returns the gap behind the checkpoint; nil if the log can be read on.
	Status(ctx context.Context) (*report.Status, error)
	Gap(ctx context.Context) (*Gap, error)

	// Send writes a message as an application does, and returns its id.
	Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error)
}
