package mysql

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store"
)

// A Config is the database of a pipeline.
type Config config

var _ store.Database = Config{}

// Source implements store.Database.
func (c Config) Source() source.Source {
	if c.Poll {
		return NewPoll(config(c))
	}
	return New(config(c))
}

// Open implements store.Database.
func (c Config) Open(ctx context.Context) (checkpoint.Store, error) { return Open(ctx, config(c)) }

// Operator implements store.Database.
func (c Config) Operator() store.Operator { return Operator(config(c)) }

// SetupScript implements store.Database.
func (c Config) SetupScript() (string, error) { return SetupScript(config(c)) }

// Init implements store.Database.
func (c Config) Init(ctx context.Context) (done []string, err error) { return Init(ctx, config(c)) }

// FirstMade implements store.Database.
func (c Config) FirstMade() string { return "" }

// UninstallScript implements store.Database.
func (c Config) UninstallScript() (string, error) { return uninstallSQL(config(c)), nil }

// Uninstall implements store.Database.
func (c Config) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	return Uninstall(ctx, config(c), force)
}

// Check implements store.Database.
func (c Config) Check(ctx context.Context) ([]store.Finding, error) { return Check(ctx, config(c)) }

// Example implements store.Database.
func (c Config) Example(ctx context.Context, t *outbox.Table) (*outbox.Message, error) {
	return Example(ctx, config(c), t)
}

// Gap implements store.Database.
func (c Config) Gap(ctx context.Context) (*store.Gap, error) { return Gap(ctx, config(c)) }

// Send implements store.Database.
func (c Config) Send(ctx context.Context, t *outbox.Table, d outbox.Draft, o outbox.Options) (id string, err error) {
	return Send(ctx, config(c), t, d, o)
}

// Status implements store.Database.
func (c Config) Status(ctx context.Context) (*store.Status, error) {
	r, err := Status(ctx, config(c))
	if err != nil {
		return nil, err
	}
	s := store.NewStatus(&r.Report, r)
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
	s.Log = [][]string{{"lag", fmt.Sprintf("%s; the server has %s of log", store.Bytes(r.LagBytes), store.Bytes(r.RetainedBytes))}}
	s.RetainedBytes, s.LagBytes = r.RetainedBytes, r.LagBytes
	return s, nil
}
