package pipeline

import (
	"log/slog"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo"
	mongosetup "github.com/tailbox/tailbox/source/mongo/setup"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Database is that of the configuration. ignored may be nil.
func (p *Pipeline) Database(log *slog.Logger, ignored func(why string, n int)) operate.Database {
	c := &p.Config.Source
	cfg := source.Config{Pipeline: p.Config.Pipeline, URL: c.URL, LockURL: c.LockURL, Poll: c.Poll, Schema: c.Schema, Start: c.Start, LeftOff: c.LeftOff, Tables: c.Tables,
		CreateTables: p.CreateTables, MaxMessage: int(p.Config.MaxMessage), Ignored: ignored, Feedback: p.Feedback, Logger: log}
	switch c.Kind {
	case "mongodb":
		return mongo.Config{Config: cfg}
	case server.KindMySQL, server.KindMariaDB:
		return mysql.Config{Config: cfg, Kind: c.Kind, ServerID: c.ServerID}
	default: // the configuration lets no other kind pass
		return postgres.Config{Config: cfg, Slot: c.Slot, Publication: c.Publication, Failover: c.Failover, TakeOver: c.TakeOver, Messages: c.Messages}
	}
}

// TableScript is how a table is made in a kind of database.
func TableScript(kind string, t *outbox.Table) (string, error) {
	switch kind {
	case "postgres":
		return ddl.Script(t)
	case server.KindMySQL, server.KindMariaDB:
		return schema.TableSQL(t)
	case "mongodb":
		return mongosetup.TableScript(t)
	}
	return "", cli.WrongUsage("init --kind %s: choose one of postgres, mysql, mariadb, mongodb", kind)
}
