package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres"
	"github.com/tailbox/tailbox/source/store"
)

// postgresDatabase is a database of Postgres.
type postgresDatabase struct {
	cfg postgres.Config
	store.Operator
}

// postgres is what the parts for Postgres need to know. ignored may be nil.
func (p *Pipeline) postgres(log *slog.Logger, ignored func(why string, n int)) postgres.Config {
	c := p.Config
	return postgres.Config{Pipeline: c.Pipeline, URL: c.Source.URL, LockURL: c.Source.LockURL, Slot: c.Source.Slot,
		Publication: c.Source.Publication, Poll: c.Source.Poll, Failover: c.Source.Failover, TakeOver: c.Source.TakeOver, Schema: c.Source.Schema, Start: c.Source.Start,
		Tables: c.Source.Tables, Messages: c.Source.Messages, MaxMessage: int(c.MaxMessage), Ignored: ignored, Feedback: p.Feedback, Logger: log}
}

func (d postgresDatabase) Source() source.Source {
	if d.cfg.Poll {
		return postgres.NewPoll(d.cfg)
	}
	return postgres.New(d.cfg)
}

func (d postgresDatabase) Open(ctx context.Context) (checkpoint.Store, error) {
	return postgres.OpenStore(ctx, d.cfg)
}

func (d postgresDatabase) SetupScript() (string, error) { return postgres.SetupSQL(d.cfg) }

func (d postgresDatabase) Create(ctx context.Context, tables bool) ([]string, error) {
	d.cfg.CreateTables = tables
	return postgres.Init(ctx, d.cfg)
}

func (d postgresDatabase) Beside() string {
	if d.cfg.Poll || d.cfg.TakeOver {
		return ""
	}
	return "slot " + d.cfg.Slot + " and "
}

func (d postgresDatabase) UninstallScript() (string, error) {
	return postgres.UninstallSQL(d.cfg), nil
}

func (d postgresDatabase) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	return postgres.Uninstall(ctx, d.cfg, force)
}

func (d postgresDatabase) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return postgres.Example(ctx, d.cfg, t)
}

func (d postgresDatabase) Check(ctx context.Context) ([]store.Finding, error) {
	return postgres.Check(ctx, d.cfg)
}

func (d postgresDatabase) Gap(ctx context.Context) (*store.Gap, error) {
	return postgres.FindGap(ctx, d.cfg)
}

func (db postgresDatabase) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (string, error) {
	return sendPostgres(ctx, cmp.Or(db.cfg.LockURL, db.cfg.URL), t, d, o)
}

func (d postgresDatabase) Status(ctx context.Context) (*Report, error) {
	r, err := postgres.Status(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	out := reportOf(r, &r.Report)
	out.Relay, out.Running = holderText(r.Holder), r.Holder != nil
	out.Source = fmt.Sprintf("postgres %s, system id/timeline %s, log ends at %s", r.Version, r.SourceID, r.End)
	if d.cfg.Poll {
		out.Log = pollLines(r.Poll, string(out.Resume))
	} else if r.Slot == nil && r.Checkpoint == nil {
		out.Log = [][]string{{"slot", "there is none: tailbox init makes it"}}
	} else if r.Slot == nil {
		out.Log = [][]string{{"slot", "there is none: tailbox check says what tailbox run will do"}}
	} else {
		out.Log = [][]string{{"slot", slotText(r.Slot)}, {"lag", fmt.Sprintf("%s, %s; the server keeps %s of log", cli.Bytes(r.Slot.LagBytes),
			cli.Seconds(r.Slot.LagSeconds), cli.Bytes(r.Slot.RetainedBytes))}}
		out.Retained, out.Lag = r.Slot.RetainedBytes, r.Slot.LagBytes
		if r.Slot.Waiting != "" {
			out.Log = append(out.Log, []string{"waiting", "Postgres sends no message until all standbys of synchronized_standby_slots have it: " + r.Slot.Waiting})
			out.Waiting, out.WaitSeconds = r.Slot.Waiting, r.Slot.LagSeconds
		}
	}
	return out, nil
}

func holderText(h *postgres.HolderReport) string {
	if h == nil {
		return "not running: nobody holds the pipeline's lock"
	}
	if h.Foreign {
		return fmt.Sprintf("not known to run: the pipeline's lock is held by a session that is no tailbox of this pipeline and role (%s)", h)
	}
	from := "this machine"
	if h.Client != "" {
		from = h.Client
	}
	return fmt.Sprintf("running from %s since %s (%s)", from, h.Since.Format(time.RFC3339), h)
}

// slotText tells the columns of pg_replication_slots that matter most.
func slotText(s *postgres.SlotReport) string {
	text := s.Name
	for _, column := range []string{"active", "wal_status", "confirmed_flush_lsn", "restart_lsn", "invalidation_reason", "conflicting"} {
		if v, ok := s.Row[column]; ok && v != nil && v != "" && (column != "conflicting" || v == true) {
			text += fmt.Sprintf(" %s=%v", column, v)
		}
	}
	return text
}
