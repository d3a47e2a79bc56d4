package pipeline

import (
	"log/slog"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/outbox"
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
	switch p.Config.Source.Kind {
	case "mongodb":
		return p.mongo(log)
	case server.KindMySQL, server.KindMariaDB:
		return p.mysql(log, ignored)
	default: // the configuration lets no other kind pass
		return p.postgres(log, ignored)
	}
}

// postgres is the configuration of Postgres. ignored may be nil.
func (p *Pipeline) postgres(log *slog.Logger, ignored func(why string, n int)) postgres.Config {
	c := p.Config
	return postgres.Config{Pipeline: c.Pipeline, URL: c.Source.URL, LockURL: c.Source.LockURL, Slot: c.Source.Slot,
		Publication: c.Source.Publication, Poll: c.Source.Poll, Failover: c.Source.Failover, TakeOver: c.Source.TakeOver, Schema: c.Source.Schema, Start: c.Source.Start,
		Tables: c.Source.Tables, Messages: c.Source.Messages, MaxMessage: int(c.MaxMessage), Ignored: ignored, Feedback: p.Feedback, Logger: log,
		CreateTables: p.CreateTables}
}

// mysql is the configuration of MySQL and MariaDB. ignored may be nil.
func (p *Pipeline) mysql(log *slog.Logger, ignored func(why string, n int)) mysql.Config {
	c := p.Config
	return mysql.Config{Kind: c.Source.Kind, Pipeline: c.Pipeline, URL: c.Source.URL, LockURL: c.Source.LockURL, ServerID: c.Source.ServerID, Poll: c.Source.Poll,
		Schema: c.Source.Schema, Start: c.Source.Start, Tables: c.Source.Tables, MaxMessage: int(c.MaxMessage), Ignored: ignored, Feedback: p.Feedback, Logger: log,
		CreateTables: p.CreateTables}
}

// mongo is the configuration of MongoDB.
func (p *Pipeline) mongo(log *slog.Logger) mongo.Config {
	c := p.Config
	return mongo.Config{Pipeline: c.Pipeline, URL: c.Source.URL, Schema: c.Source.Schema, Start: c.Source.Start, Tables: c.Source.Tables,
		MaxMessage: int(c.MaxMessage), Feedback: p.Feedback, Logger: log,
		CreateTables: p.CreateTables}
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
