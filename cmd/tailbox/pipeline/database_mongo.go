package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo"
	"github.com/tailbox/tailbox/source/store"
)

// mongoDatabase is a database of MongoDB.
type mongoDatabase struct {
	cfg mongo.Config
	store.Operator
}

// mongo is what the parts for MongoDB need to know.
func (p *Pipeline) mongo(log *slog.Logger) mongo.Config {
	c := p.Config
	return mongo.Config{Pipeline: c.Pipeline, URL: c.Source.URL, Schema: c.Source.Schema, Start: c.Source.Start, Tables: c.Source.Tables,
		MaxMessage: int(c.MaxMessage), Feedback: p.Feedback, Logger: log}
}

func (d mongoDatabase) Source() source.Source { return mongo.New(d.cfg) }

func (d mongoDatabase) Open(ctx context.Context) (checkpoint.Store, error) {
	return mongo.OpenStore(ctx, d.cfg)
}

func (d mongoDatabase) SetupScript() (string, error) { return mongo.SetupScript(d.cfg) }

func (d mongoDatabase) Create(ctx context.Context, tables bool) ([]string, error) {
	d.cfg.CreateTables = tables
	return mongo.Init(ctx, d.cfg)
}

func (d mongoDatabase) Beside() string { return "" }

func (d mongoDatabase) UninstallScript() (string, error) { return mongo.UninstallScript(d.cfg) }

func (d mongoDatabase) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	dropped, err = mongo.Uninstall(ctx, d.cfg, force)
	return dropped, nil, err
}

func (d mongoDatabase) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return mongo.Example(ctx, d.cfg, t)
}

func (d mongoDatabase) Check(ctx context.Context) ([]store.Finding, error) {
	return mongo.Check(ctx, d.cfg)
}

func (d mongoDatabase) Gap(ctx context.Context) (*store.Gap, error) {
	return mongo.FindGap(ctx, d.cfg)
}

func (db mongoDatabase) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (string, error) {
	return sendMongo(ctx, db.cfg, t, d, o)
}

func (d mongoDatabase) Status(ctx context.Context) (*Report, error) {
	r, err := mongo.Status(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	out := reportOf(r, &r.Report)
	out.Relay = "not running: nobody holds the pipeline's lease"
	out.Source = fmt.Sprintf("mongodb %s, %s, log ends at %s", r.Version, r.SourceID, r.End)
	if h := r.Holder; h != nil {
		out.Running = true
		out.Relay = fmt.Sprintf("running at %s (process %d), lease renewed at %s", h.Host, h.PID, h.Renewed.Format(time.RFC3339))
	}
	if o := r.Oplog; o != nil {
		out.Log = append(out.Log, []string{"oplog", fmt.Sprintf("reaches back %s, %s of at most %s", cli.Seconds(o.WindowSeconds), cli.Bytes(o.Bytes), cli.Bytes(o.MaxBytes))})
	}
	if c := r.Checkpoint; c != nil && c.LagSeconds != nil {
		out.Log = append(out.Log, []string{"lag", cli.Seconds(*c.LagSeconds)})
	}
	return out, nil
}
