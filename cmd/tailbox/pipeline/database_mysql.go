package pipeline

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/store"
)

// mysqlDatabase is a database of MySQL or MariaDB.
type mysqlDatabase struct {
	cfg mysql.Config
	store.Operator
}

// mysql is what the parts for MySQL and MariaDB need to know. ignored may be nil.
func (p *Pipeline) mysql(log *slog.Logger, ignored func(why string, n int)) mysql.Config {
	c := p.Config
	return mysql.Config{Kind: c.Source.Kind, Pipeline: c.Pipeline, URL: c.Source.URL, LockURL: c.Source.LockURL, ServerID: c.Source.ServerID, Poll: c.Source.Poll,
		Schema: c.Source.Schema, Start: c.Source.Start, Tables: c.Source.Tables, MaxMessage: int(c.MaxMessage), Ignored: ignored, Feedback: p.Feedback, Logger: log}
}

func (d mysqlDatabase) Source() source.Source {
	if d.cfg.Poll {
		return mysql.NewPoll(d.cfg)
	}
	return mysql.New(d.cfg)
}

func (d mysqlDatabase) Open(ctx context.Context) (checkpoint.Store, error) {
	return mysql.OpenStore(ctx, d.cfg)
}

func (d mysqlDatabase) SetupScript() (string, error) { return mysql.SetupSQL(d.cfg) }

func (d mysqlDatabase) Create(ctx context.Context, tables bool) ([]string, error) {
	d.cfg.CreateTables = tables
	return mysql.Init(ctx, d.cfg)
}

func (d mysqlDatabase) Beside() string { return "" }

func (d mysqlDatabase) UninstallScript() (string, error) { return mysql.UninstallSQL(d.cfg), nil }

func (d mysqlDatabase) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	dropped, err = mysql.Uninstall(ctx, d.cfg, force)
	return dropped, nil, err
}

func (d mysqlDatabase) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return mysql.Example(ctx, d.cfg, t)
}

func (d mysqlDatabase) Check(ctx context.Context) ([]store.Finding, error) {
	return mysql.Check(ctx, d.cfg)
}

func (d mysqlDatabase) Gap(ctx context.Context) (*store.Gap, error) {
	return mysql.FindGap(ctx, d.cfg)
}

func (db mysqlDatabase) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (string, error) {
	return mysql.Send(ctx, db.cfg, t, d, o)
}

func (d mysqlDatabase) Status(ctx context.Context) (*Report, error) {
	r, err := mysql.Status(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	out := reportOf(r, &r.Report)
	out.Relay = "not running: nobody holds the pipeline's lock"
	out.Source = fmt.Sprintf("%s %s, server %s, log ends at %s", d.cfg.Kind, r.Version, r.SourceID, r.End)
	out.Log, out.Retained, out.Lag = [][]string{{"lag", fmt.Sprintf("%s; the server has %s of log", cli.Bytes(r.LagBytes), cli.Bytes(r.RetainedBytes))}}, r.RetainedBytes, r.LagBytes
	if d.cfg.Poll {
		out.Log, out.Retained, out.Lag = pollLines(r.Poll, string(out.Resume)), -1, -1
		out.Source = fmt.Sprintf("%s %s, server %s", d.cfg.Kind, r.Version, r.SourceID)
	}
	if h := r.Holder; h != nil {
		out.Running = true
		out.Relay = fmt.Sprintf("running (%s)", h)
		if h.Foreign {
			out.Relay = fmt.Sprintf("not known to run: the pipeline's lock is held by a session that is no tailbox of this pipeline and account (%s)", h)
		}
	}
	return out, nil
}
