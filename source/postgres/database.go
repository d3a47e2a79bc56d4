package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxpgx"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store"
)

var _ store.Database = Config{}

// Source implements store.Database.
func (cfg Config) Source() source.Source {
	if cfg.Poll {
		return NewPoll(cfg)
	}
	return New(cfg)
}

// FirstMade implements store.Database.
func (cfg Config) FirstMade() string {
	if cfg.Poll || cfg.TakeOver {
		return ""
	}
	return "slot " + cfg.Slot + " and "
}

// UninstallScript implements store.Database.
func (cfg Config) UninstallScript() (string, error) { return uninstallSQL(cfg), nil }

// Send implements store.Database, with the writer of applications.
func (cfg Config) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	conn, err := pgx.Connect(ctx, cfg.directURL())
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

// Status implements store.Database.
func (cfg Config) Status(ctx context.Context) (*store.Status, error) {
	r, err := Status(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := store.NewStatus(&r.Report, r)
	s.Relay, s.Running = r.Holder.relay(), r.Holder != nil
	s.Source = fmt.Sprintf("postgres %s, system id/timeline %s, log ends at %s", r.Version, r.SourceID, r.End)
	switch {
	case cfg.Poll:
		at, _, err := poll.ParseResume(r.Resume())
		s.Log = r.Poll.Lines(at, err == nil)
	case r.Slot == nil && r.Checkpoint == nil:
		s.Log = [][]string{{"slot", "there is none: tailbox init makes it"}}
	case r.Slot == nil:
		s.Log = [][]string{{"slot", "there is none: tailbox check says what tailbox run will do"}}
	default:
		s.Log = [][]string{{"slot", r.Slot.text()}, {"lag", fmt.Sprintf("%s, %s; the server keeps %s of log", store.Bytes(r.Slot.LagBytes),
			store.Seconds(r.Slot.LagSeconds), store.Bytes(r.Slot.RetainedBytes))}}
		s.RetainedBytes, s.LagBytes = r.Slot.RetainedBytes, r.Slot.LagBytes
		if r.Slot.Waiting != "" {
			s.Log = append(s.Log, []string{"waiting", "Postgres sends no message until all standbys of synchronized_standby_slots have it: " + r.Slot.Waiting})
			s.Waiting, s.WaitSeconds = r.Slot.Waiting, r.Slot.LagSeconds
		}
	}
	return s, nil
}

// relay says who relays.
func (h *HolderReport) relay() string {
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

// text shows the columns of pg_replication_slots that matter most.
func (s *SlotReport) text() string {
	text := s.Name
	for _, column := range []string{"active", "wal_status", "confirmed_flush_lsn", "restart_lsn", "invalidation_reason", "conflicting"} {
		if v, ok := s.Row[column]; ok && v != nil && v != "" && (column != "conflicting" || v == true) {
			text += fmt.Sprintf(" %s=%v", column, v)
		}
	}
	return text
}
