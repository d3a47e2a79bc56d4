package main

import (
	"context"
	"log/slog"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// A database is what the commands ask of the pipeline's database. Each kind has one.
type database interface {
	source() source.Source
	open(ctx context.Context) (checkpoint.Store, error)

	// setupScript is what create makes, for a migration tool; beside names what is made with the first checkpoint, such as
	// "slot s and ".
	setupScript() (string, error)
	// create creates what is missing; tables: also outbox tables that look as if they were there under another name.
	create(ctx context.Context, tables bool) (done []string, err error)
	beside() string
	uninstallScript() (string, error)
	// uninstall returns what it left as well, because it may be somebody else's.
	uninstall(ctx context.Context, force bool) (dropped, left []string, err error)

	check(ctx context.Context) ([]store.Finding, error)
	// example is a message that a row of the table makes; nil if there is none.
	example(ctx context.Context, t *outbox.Table) (*outbox.Message, error)
	status(ctx context.Context) (*report, error)
	gap(ctx context.Context) (*store.Gap, error)

	// ask writes a request; wait waits until it is carried out, and result looks how far it is.
	ask(ctx context.Context, r *checkpoint.Request) (id int64, err error)
	wait(ctx context.Context, id int64) (*store.RequestResult, error)
	result(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error)
	// parked lists deliveries without their payloads; whole lists them with these, as many as fit into memory.
	parked(ctx context.Context, sel checkpoint.Selection, limit int) (list []store.Listed, more bool, err error)
	whole(ctx context.Context, sel checkpoint.Selection) (list []store.Listed, more bool, err error)
	lanes(ctx context.Context, sel checkpoint.Selection, limit int) ([]store.WaitingLane, error)

	// send writes a message, as an application would.
	send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error)
}

// database is that of the configuration. ignored may be nil.
func (p *parts) database(log *slog.Logger, ignored func(why string, n int)) database {
	switch p.config.Source.Kind {
	case "mongodb":
		return mongoDatabase{p.mongo(log)}
	case "mysql", "mariadb":
		return mysqlDatabase{p.mysql(log, ignored)}
	default: // the configuration lets no other kind pass
		return postgresDatabase{p.postgres(log, ignored)}
	}
}
