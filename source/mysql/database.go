package mysql

import (
	"context"
	"fmt"

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
func (cfg Config) FirstMade() string { return "" }

// UninstallScript implements store.Database.
func (cfg Config) UninstallScript() (string, error) { return uninstallSQL(cfg), nil }

// Status implements store.Database.
func (cfg Config) Status(ctx context.Context) (*store.Status, error) {
	r, err := Status(ctx, cfg)
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
	s.Source = fmt.Sprintf("%s %s, server %s", cfg.Kind, r.Version, r.SourceID)
	if cfg.Poll {
		at, _, err := poll.ParseResume(r.Resume())
		s.Log = r.Poll.Lines(at, err == nil)
		return s, nil
	}
	s.Source += ", log ends at " + r.End
	s.Log = [][]string{{"lag", fmt.Sprintf("%s; the server has %s of log", store.Bytes(r.LagBytes), store.Bytes(r.RetainedBytes))}}
	s.RetainedBytes, s.LagBytes = r.RetainedBytes, r.LagBytes
	return s, nil
}
