// Package mysql is MySQL 8.0 and later and MariaDB 10.6 and later as a database of a pipeline. The packages below it do the work:
//
//   - server connects, and asks the server about itself; quote, sqltext and binlog are its languages;
//   - catalog describes the outbox tables, snapshot reads what is pending in them;
//   - stream reads messages from the binlog, polling reads them from a table;
//   - session runs statements on tailbox's own tables, which schema makes;
//   - usertable changes rows of the outbox tables, and store keeps the state of a relay;
//   - operator shows that state to operators, and setup prepares the database.
//
// One driver serves all of it: go-mysql's client, for SQL and for the connection that the binlog comes over. The binlog itself is read by
// package binlog, in bounded memory, whatever the size of a transaction.
package mysql

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/operator"
	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/setup"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/source/mysql/stream"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Config is the database of a pipeline.
type Config server.Config

var _ operate.Database = Config{}

// Source implements operate.Database.
func (c Config) Source() source.Source {
	if c.Poll {
		return polling.New(server.Config(c))
	}
	return stream.New(server.Config(c))
}

// Open implements operate.Database.
func (c Config) Open(ctx context.Context) (checkpoint.Store, error) {
	return mystore.Open(ctx, server.Config(c))
}

// Operator implements operate.Database.
func (c Config) Operator() operate.Operator { return operator.New(server.Config(c)) }

// SetupScript implements operate.Database.
func (c Config) SetupScript() (string, error) { return setup.Script(server.Config(c)) }

// Init implements operate.Database.
func (c Config) Init(ctx context.Context) (done []string, err error) {
	return setup.Init(ctx, server.Config(c))
}

// FirstMade implements operate.Database.
func (c Config) FirstMade() string { return "" }

// UninstallScript implements operate.Database.
func (c Config) UninstallScript() (string, error) {
	return setup.UninstallScript(server.Config(c)), nil
}

// Uninstall implements operate.Database.
func (c Config) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	return setup.Uninstall(ctx, server.Config(c), force)
}

// Check implements operate.Database.
func (c Config) Check(ctx context.Context) ([]check.Finding, error) {
	return setup.Check(ctx, server.Config(c))
}

// Settings implements operate.Database.
func (c Config) Settings(ctx context.Context) ([]report.Setting, error) {
	return setup.Settings(ctx, server.Config(c))
}

// Example implements operate.Database.
func (c Config) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return setup.Example(ctx, server.Config(c), t)
}

// Describe implements operate.Database.
func (c Config) Describe(ctx context.Context, schema, name string) (*report.Table, error) {
	return setup.Describe(ctx, server.Config(c), schema, name)
}

// Gap implements operate.Database.
func (c Config) Gap(ctx context.Context) (*operate.Gap, error) {
	return operator.Gap(ctx, server.Config(c))
}

// Send implements operate.Database.
func (c Config) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	return setup.Send(ctx, server.Config(c), t, d, o)
}

// Status implements operate.Database.
func (c Config) Status(ctx context.Context) (*report.Status, error) {
	r, err := operator.Status(ctx, server.Config(c))
	if err != nil {
		return nil, err
	}
	s := report.NewStatus(&r.Report, r)
	s.Running = r.Holder != nil
	switch h := r.Holder; {
	case h == nil:
		s.Relay = "not running: nobody holds the pipeline's lock"
	case h.Foreign:
		s.Relay = fmt.Sprintf("not known to run: the pipeline's lock is held by a session that is no tailbox of this pipeline and account (%s)", h)
	default:
		s.Relay = fmt.Sprintf("running (%s)", h)
	}
	s.Source = fmt.Sprintf("%s %s, server %s", c.Kind, r.Version, r.SourceID)
	if c.Poll {
		at, _, err := poll.ParseResume(r.Resume())
		s.Log = r.Poll.Lines(at, err == nil)
		return s, nil
	}
	s.Source += ", log ends at " + r.End
	s.Log = [][]string{{"lag", fmt.Sprintf("%s; the server has %s of log", report.Bytes(r.LagBytes), report.Bytes(r.RetainedBytes))}}
	s.LagBytes = r.LagBytes // what the server retains, it keeps for itself, not for the pipeline
	return s, nil
}
