package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql"
	"github.com/tailbox/tailbox/source/store"
)

// mysqlDatabase is a database of MySQL or MariaDB.
type mysqlDatabase struct{ cfg mysql.Config }

// mysql is what the parts for MySQL and MariaDB need to know. ignored may be nil.
func (p *parts) mysql(log *slog.Logger, ignored func(why string, n int)) mysql.Config {
	c := p.config
	return mysql.Config{Kind: c.Source.Kind, Pipeline: c.Pipeline, URL: c.Source.URL, LockURL: c.Source.LockURL, ServerID: c.Source.ServerID, Poll: c.Source.Poll,
		Schema: c.Source.Schema, Start: c.Source.Start, Tables: c.Source.Tables, MaxMessage: int(c.MaxMessage), Ignored: ignored, Feedback: p.feedback, Logger: log}
}

func (d mysqlDatabase) source() source.Source {
	if d.cfg.Poll {
		return mysql.NewPoll(d.cfg)
	}
	return mysql.New(d.cfg)
}

func (d mysqlDatabase) open(ctx context.Context) (checkpoint.Store, error) {
	return mysql.OpenStore(ctx, d.cfg)
}

func (d mysqlDatabase) setupScript() (string, error) { return mysql.SetupSQL(d.cfg) }

func (d mysqlDatabase) create(ctx context.Context, tables bool) ([]string, error) {
	d.cfg.CreateTables = tables
	return mysql.Init(ctx, d.cfg)
}

func (d mysqlDatabase) beside() string { return "" }

func (d mysqlDatabase) uninstallScript() (string, error) { return mysql.UninstallSQL(d.cfg), nil }

func (d mysqlDatabase) uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	dropped, err = mysql.Uninstall(ctx, d.cfg, force)
	return dropped, nil, err
}

func (d mysqlDatabase) example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return mysql.Example(ctx, d.cfg, t)
}

func (d mysqlDatabase) check(ctx context.Context) ([]store.Finding, error) {
	return mysql.Check(ctx, d.cfg)
}

func (d mysqlDatabase) gap(ctx context.Context) (*store.Gap, error) {
	return mysql.FindGap(ctx, d.cfg)
}

func (d mysqlDatabase) ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	return mysql.Ask(ctx, d.cfg, r)
}

func (d mysqlDatabase) wait(ctx context.Context, id int64) (*store.RequestResult, error) {
	return mysql.Wait(ctx, d.cfg, id)
}

func (d mysqlDatabase) result(ctx context.Context, id int64) (*store.RequestResult, bool, error) {
	return mysql.Result(ctx, d.cfg, id)
}

func (d mysqlDatabase) parked(ctx context.Context, sel checkpoint.Selection, limit int) ([]store.Listed, bool, error) {
	return mysql.ListParked(ctx, d.cfg, sel, limit, false)
}

func (d mysqlDatabase) whole(ctx context.Context, sel checkpoint.Selection) ([]store.Listed, bool, error) {
	return mysql.ListParked(ctx, d.cfg, sel, 0, true)
}

func (d mysqlDatabase) lanes(ctx context.Context, sel checkpoint.Selection, limit int) ([]store.WaitingLane, error) {
	return mysql.ListLanes(ctx, d.cfg, sel, limit)
}

func (db mysqlDatabase) send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (string, error) {
	return mysql.Send(ctx, db.cfg, t, d, o)
}

func (d mysqlDatabase) status(ctx context.Context) (*report, error) {
	r, err := mysql.Status(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	out := &report{all: r, sinks: &r.Sinks, pipeline: r.Pipeline, relay: "not running: nobody holds the pipeline's lock",
		checkpoint: "there is none: tailbox init makes it", openRequests: r.OpenRequests, held: r.Held, feedback: r.Feedback, retained: r.RetainedBytes, lag: r.LagBytes,
		source: fmt.Sprintf("%s %s, server %s, log ends at %s", d.cfg.Kind, r.Version, r.SourceID, r.End),
		log:    [][]string{{"lag", fmt.Sprintf("%s; the server has %s of log", bytesText(r.LagBytes), bytesText(r.RetainedBytes))}}}
	if d.cfg.Poll {
		resume := ""
		if r.Checkpoint != nil {
			resume = r.Checkpoint.Resume
		}
		out.log, out.retained, out.lag = pollLines(r.Poll, resume), -1, -1
		out.source = fmt.Sprintf("%s %s, server %s", d.cfg.Kind, r.Version, r.SourceID)
	}
	if h := r.Holder; h != nil {
		out.running = true
		out.relay = fmt.Sprintf("running (%s)", h)
		if h.Foreign {
			out.relay = fmt.Sprintf("not known to run: the pipeline's lock is held by a session that is no tailbox of this pipeline and account (%s)", h)
		}
	}
	if c := r.Checkpoint; c != nil {
		out.unclean, out.resume = c.UncleanStarts, source.Resume(c.Resume)
		out.checkpoint = checkpointLine(c.Resume, c.Log, c.AgeSeconds, c.SweepPending, c.UncleanStarts)
	}
	return out, nil
}
