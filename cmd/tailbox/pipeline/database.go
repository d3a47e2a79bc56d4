package pipeline

import (
	"context"
	"log/slog"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/store"
)

// A Database is what the commands ask of the pipeline's database. Each kind has one.
type Database interface {
	Source() source.Source
	Open(ctx context.Context) (checkpoint.Store, error)

	// SetupScript is what create makes, for a migration tool; beside names what is made with the first checkpoint, such as
	// "slot s and ".
	SetupScript() (string, error)
	// Create creates what is missing; tables: also outbox tables that look as if they were there under another name.
	Create(ctx context.Context, tables bool) (done []string, err error)
	Beside() string
	UninstallScript() (string, error)
	// Uninstall returns what it left as well, because it may be somebody else's.
	Uninstall(ctx context.Context, force bool) (dropped, left []string, err error)

	Check(ctx context.Context) ([]store.Finding, error)
	// Example is a message that a row of the table makes; nil if there is none.
	Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error)
	Status(ctx context.Context) (*Report, error)
	Gap(ctx context.Context) (*store.Gap, error)

	// Ask writes a request; Wait waits until it is carried out, and Result looks how far it is. See store.Operator.
	Ask(ctx context.Context, r *checkpoint.Request) (id int64, err error)
	Wait(ctx context.Context, id int64) (*store.RequestResult, error)
	Result(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error)
	// Parked lists deliveries without their payloads; whole lists them with these, as many as fit into memory.
	Parked(ctx context.Context, sel checkpoint.Selection, limit int) (list []store.Listed, more bool, err error)
	Whole(ctx context.Context, sel checkpoint.Selection) (list []store.Listed, more bool, err error)
	Lanes(ctx context.Context, sel checkpoint.Selection, limit int) ([]store.WaitingLane, error)

	// Send writes a message, as an application would.
	Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error)
}

// Database is that of the configuration. ignored may be nil.
func (p *Pipeline) Database(log *slog.Logger, ignored func(why string, n int)) Database {
	switch p.Config.Source.Kind {
	case "mongodb":
		cfg := p.mongo(log)
		return mongoDatabase{cfg, mongo.Operate(cfg)}
	case "mysql", "mariadb":
		cfg := p.mysql(log, ignored)
		return mysqlDatabase{cfg, mysql.Operate(cfg)}
	default: // the configuration lets no other kind pass
		cfg := p.postgres(log, ignored)
		return postgresDatabase{cfg, postgres.Operate(cfg)}
	}
}
