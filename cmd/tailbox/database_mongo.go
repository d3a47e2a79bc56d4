package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/source/store"
)

// mongoDatabase is a database of MongoDB.
type mongoDatabase struct{ cfg mongo.Config }

// mongo is what the parts for MongoDB need to know.
func (p *parts) mongo(log *slog.Logger) mongo.Config {
	c := p.config
	return mongo.Config{Pipeline: c.Pipeline, URL: c.Source.URL, Schema: c.Source.Schema, Start: c.Source.Start, Tables: c.Source.Tables,
		MaxMessage: int(c.MaxMessage), Feedback: p.feedback, Logger: log}
}

func (d mongoDatabase) source() source.Source { return mongo.New(d.cfg) }

func (d mongoDatabase) open(ctx context.Context) (checkpoint.Store, error) {
	return mongo.OpenStore(ctx, d.cfg)
}

func (d mongoDatabase) setupScript() (string, error) { return mongo.SetupScript(d.cfg) }

func (d mongoDatabase) create(ctx context.Context, tables bool) ([]string, error) {
	d.cfg.CreateTables = tables
	return mongo.Init(ctx, d.cfg)
}

func (d mongoDatabase) beside() string { return "" }

func (d mongoDatabase) uninstallScript() (string, error) { return mongo.UninstallScript(d.cfg) }

func (d mongoDatabase) uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	dropped, err = mongo.Uninstall(ctx, d.cfg, force)
	return dropped, nil, err
}

func (d mongoDatabase) example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return mongo.Example(ctx, d.cfg, t)
}

func (d mongoDatabase) check(ctx context.Context) ([]store.Finding, error) {
	return mongo.Check(ctx, d.cfg)
}

func (d mongoDatabase) gap(ctx context.Context) (*store.Gap, error) {
	return mongo.FindGap(ctx, d.cfg)
}

func (d mongoDatabase) ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	return mongo.Ask(ctx, d.cfg, r)
}

func (d mongoDatabase) wait(ctx context.Context, id int64) (*store.RequestResult, error) {
	return mongo.Wait(ctx, d.cfg, id)
}

func (d mongoDatabase) result(ctx context.Context, id int64) (*store.RequestResult, bool, error) {
	return mongo.Result(ctx, d.cfg, id)
}

func (d mongoDatabase) parked(ctx context.Context, sel checkpoint.Selection, limit int) ([]store.Listed, bool, error) {
	return mongo.ListParked(ctx, d.cfg, sel, limit, false)
}

func (d mongoDatabase) whole(ctx context.Context, sel checkpoint.Selection) ([]store.Listed, bool, error) {
	return mongo.ListParked(ctx, d.cfg, sel, 0, true)
}

func (d mongoDatabase) lanes(ctx context.Context, sel checkpoint.Selection, limit int) ([]store.WaitingLane, error) {
	return mongo.ListLanes(ctx, d.cfg, sel, limit)
}

func (db mongoDatabase) send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (string, error) {
	return sendMongo(ctx, db.cfg, t, d, o)
}

func (d mongoDatabase) status(ctx context.Context) (*report, error) {
	r, err := mongo.Status(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	out := &report{all: r, sinks: &r.Sinks, pipeline: r.Pipeline, relay: "not running: nobody holds the pipeline's lease",
		checkpoint: "there is none: tailbox init makes it", openRequests: r.OpenRequests, held: r.Held, feedback: r.Feedback, retained: -1, lag: -1,
		source: fmt.Sprintf("mongodb %s, %s, log ends at %s", r.Version, r.SourceID, r.End)}
	if h := r.Holder; h != nil {
		out.running = true
		out.relay = fmt.Sprintf("running at %s (process %d), lease renewed at %s", h.Host, h.PID, h.Renewed.Format(time.RFC3339))
	}
	if o := r.Oplog; o != nil {
		out.log = append(out.log, []string{"oplog", fmt.Sprintf("reaches back %s, %s of at most %s", seconds(o.WindowSeconds), bytesText(o.Bytes), bytesText(o.MaxBytes))})
	}
	if c := r.Checkpoint; c != nil {
		out.unclean, out.resume = c.UncleanStarts, source.Resume(c.Resume)
		out.log = append(out.log, []string{"lag", seconds(c.LagSeconds)})
		out.checkpoint = checkpointLine(c.Resume, c.Log, c.AgeSeconds, c.SweepPending, c.UncleanStarts)
	}
	return out, nil
}
