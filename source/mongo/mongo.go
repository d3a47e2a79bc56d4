// Package mongo is everything the relay knows about MongoDB 5.0 and later, as a replica set or a sharded cluster. Its Config is what
// the commands of tailbox use; the work is done in the packages below:
//
//   - stream reads the outbox collections, by a change stream, and by a snapshot where a position is new
//   - store keeps the relay's state in the collections tailbox_*, under the lease of package lease
//   - setup creates collections, writes scripts and checks what must be set
//   - catalog knows collections, conn connects, oplog knows the log
//   - document makes messages of documents, delivery keeps those that are parked, and update makes the updates of an application's documents
//
// A collection of the outbox is called a table here, and its fields columns, as everywhere in the relay.
package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/setup"
	mongostore "github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Config is a database of MongoDB, as a pipeline uses it. Its fields are those of conn.Config.
type Config conn.Config

var _ operate.Database = Config{}

// Source implements operate.Database.
func (cfg Config) Source() source.Source { return stream.New(conn.Config(cfg)) }

// Open implements operate.Database.
func (cfg Config) Open(ctx context.Context) (checkpoint.Store, error) {
	return mongostore.Open(ctx, conn.Config(cfg))
}

// Operator implements operate.Database.
func (cfg Config) Operator() operate.Operator { return mongostore.Operator(conn.Config(cfg)) }

// SetupScript implements operate.Database.
func (cfg Config) SetupScript() (string, error) { return setup.Script(conn.Config(cfg)) }

// Init implements operate.Database.
func (cfg Config) Init(ctx context.Context) ([]string, error) {
	return setup.Init(ctx, conn.Config(cfg))
}

// UninstallScript implements operate.Database.
func (cfg Config) UninstallScript() (string, error) { return setup.UninstallScript(conn.Config(cfg)) }

// Uninstall implements operate.Database.
func (cfg Config) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	return mongostore.Uninstall(ctx, conn.Config(cfg), force)
}

// Check implements operate.Database.
func (cfg Config) Check(ctx context.Context) ([]check.Finding, error) {
	return setup.Check(ctx, conn.Config(cfg))
}

// Settings implements operate.Database.
func (cfg Config) Settings(ctx context.Context) ([]report.Setting, error) {
	return setup.Settings(ctx, conn.Config(cfg))
}

// Example implements operate.Database.
func (cfg Config) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return setup.Example(ctx, conn.Config(cfg), t)
}

// Describe implements operate.Database. Collections have no columns.
func (cfg Config) Describe(context.Context, string, string) (*report.Table, error) {
	return nil, errors.New("tailbox describes tables of Postgres, MySQL and MariaDB alone: list the fields of a collection yourself, under columns")
}

// FirstMade implements operate.Database.
func (cfg Config) FirstMade() string { return "" }

// Send implements operate.Database, with the writer of applications.
func (cfg Config) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	database, err := conn.Config(cfg).Database()
	if err != nil {
		return "", err
	}
	client, err := driver.Connect(options.Client().ApplyURI(cfg.URL))
	if err != nil {
		return "", fmt.Errorf("read source.url: %w", err)
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	w, err := outboxmongo.New(ctx, client.Database(database), *t, o)
	if err != nil {
		return "", err
	}
	written, err := w.Transactor(client, nil).Do(ctx, func(context.Context, *driver.Session) ([]outbox.Draft, error) { return []outbox.Draft{d}, nil })
	if err != nil {
		return "", err
	}
	return written[0].ID, nil
}

// Status implements operate.Database.
func (cfg Config) Status(ctx context.Context) (*report.Status, error) {
	r, err := mongostore.ReadStatus(ctx, conn.Config(cfg))
	if err != nil {
		return nil, err
	}
	s := report.NewStatus(&r.Report, r)
	s.Relay = "not running: nobody holds the pipeline's lease"
	if h := r.Holder; h != nil {
		s.Running = true
		s.Relay = fmt.Sprintf("running at %s (process %d), lease renewed at %s", h.Host, h.PID, h.Renewed.Format(time.RFC3339))
	}
	s.Source = fmt.Sprintf("mongodb %s, %s, log ends at %s", r.Version, r.SourceID, r.End)
	if o := r.Oplog; o != nil {
		s.Log = append(s.Log, []string{"oplog", fmt.Sprintf("reaches back %s, %s of at most %s", report.Seconds(o.WindowSeconds), report.Bytes(o.Bytes), report.Bytes(o.MaxBytes))})
	}
	if c := r.Checkpoint; c != nil && c.LagSeconds != nil {
		s.Log = append(s.Log, []string{"lag", report.Seconds(*c.LagSeconds)})
	}
	return s, nil
}
