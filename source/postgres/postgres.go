// Package postgres relays out of Postgres 14 and later. A Config is a database as the commands of tailbox see it. The packages below do the work:
//
//   - session opens connections, and holds the configuration that all share; pgerr reads errors, sqltext writes SQL;
//   - catalog and usertable know the user's outbox tables, and ddl makes them;
//   - upstream knows the server and its slot;
//   - stream reads the log by pgrepl, polling reads a table instead, and snapshot reads what is pending before both;
//   - store keeps the relay's state, in the tables of migrate, and status reads how it stands;
//   - setup is init, check and uninstall.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/postgres/polling"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/status"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
)

// A Config is a database of Postgres, as a pipeline uses it. Its fields are those of session.Config.
type Config session.Config

var _ operate.Database = Config{}

// Source implements operate.Database.
func (cfg Config) Source() source.Source {
	if cfg.Poll {
		return polling.New(session.Config(cfg))
	}
	return stream.New(session.Config(cfg))
}

// Open implements operate.Database.
func (cfg Config) Open(ctx context.Context) (checkpoint.Store, error) {
	s, err := pgstore.Open(ctx, session.Config(cfg))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Operator implements operate.Database.
func (cfg Config) Operator() operate.Operator {
	return pgstore.Operator(session.Config(cfg))
}

// SetupScript implements operate.Database.
func (cfg Config) SetupScript() (string, error) { return setup.Script(session.Config(cfg)) }

// Init implements operate.Database.
func (cfg Config) Init(ctx context.Context) (done []string, err error) {
	return setup.Init(ctx, session.Config(cfg))
}

// FirstMade implements operate.Database.
func (cfg Config) FirstMade() string {
	if cfg.Poll || cfg.TakeOver {
		return ""
	}
	return "slot " + cfg.Slot + " and "
}

// UninstallScript implements operate.Database.
func (cfg Config) UninstallScript() (string, error) {
	return setup.UninstallScript(session.Config(cfg)), nil
}

// Uninstall implements operate.Database.
func (cfg Config) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	return setup.Uninstall(ctx, session.Config(cfg), force)
}

// Check implements operate.Database.
func (cfg Config) Check(ctx context.Context) ([]check.Finding, error) {
	return setup.Check(ctx, session.Config(cfg))
}

// Settings implements operate.Database.
func (cfg Config) Settings(ctx context.Context) ([]report.Setting, error) {
	return setup.Settings(ctx, session.Config(cfg))
}

// Example implements operate.Database.
func (cfg Config) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return setup.Example(ctx, session.Config(cfg), t)
}

// Describe implements operate.Database.
func (cfg Config) Describe(ctx context.Context, schema, name string) (*report.Table, error) {
	return setup.Describe(ctx, session.Config(cfg), schema, name)
}

// Send implements operate.Database, with the writer of applications.
func (cfg Config) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	conn, err := pgx.Connect(ctx, (*session.Config)(&cfg).DirectURL())
	if err != nil {
		return "", fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	w, err := outboxpgx.New(ctx, conn, *t, o)
	if err != nil {
		return "", err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		id, err = w.Write(ctx, tx, d)
		return err
	})
	return id, err
}

// Status implements operate.Database.
func (cfg Config) Status(ctx context.Context) (*report.Status, error) {
	r, err := status.Read(ctx, session.Config(cfg))
	if err != nil {
		return nil, err
	}
	s := report.NewStatus(&r.Report, r)
	s.Relay, s.Running = r.Holder.Relay(), r.Holder != nil
	s.Source = fmt.Sprintf("postgres %s, system id/timeline %s, log ends at %s", r.Version, r.SourceID, r.End)
	switch {
	case cfg.Poll:
		at, _, err := poll.ParseResume(r.Resume())
		s.Log = r.Poll.Lines(at, err == nil)
	case r.Slot == nil && r.Checkpoint == nil:
		s.Log = [][]string{{"slot", "there is none: tailbox init makes it"}}
	case r.Slot == nil:
		s.Log = [][]string{{"slot", "there is none: tailbox check says what tailbox run will do"}}
		s.Lost = "the replication slot does not exist"
	default:
		s.Log = [][]string{{"slot", r.Slot.Text()}, {"lag", fmt.Sprintf("%s, %s; the server keeps %s of log", report.Bytes(r.Slot.LagBytes),
			report.Seconds(r.Slot.LagSeconds), report.Bytes(r.Slot.RetainedBytes))}}
		s.RetainedBytes, s.LagBytes, s.RetainedLimit, s.Lost = r.Slot.RetainedBytes, r.Slot.LagBytes, r.Slot.Limit(), r.Slot.Lost()
		if r.Slot.Waiting != "" {
			s.Log = append(s.Log, []string{"waiting", "Postgres sends no message until all standbys of synchronized_standby_slots have it: " + r.Slot.Waiting})
			s.Waiting, s.WaitSeconds = r.Slot.Waiting, r.Slot.LagSeconds
		}
	}
	return s, nil
}
