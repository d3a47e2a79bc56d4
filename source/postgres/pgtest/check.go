package pgtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/source/postgres/stream"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Found looks for a finding of a level.
func Found(t *testing.T, findings []check.Finding, level check.Level, what, fix string) {
	t.Helper()
	for _, f := range findings {
		if f.Level == level && strings.Contains(f.What, what) && strings.Contains(f.Fix, fix) {
			return
		}
	}
	t.Errorf("check does not find %q with the fix %q:\n%s\n%s", what, fix, Levels(findings, check.Problem), Levels(findings, check.Warning))
}

// CheckAs returns what check finds with a configuration.
func (r *Rig) CheckAs(cfg session.Config) []check.Finding {
	r.T.Helper()
	findings, err := setup.Check(context.Background(), cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	return findings
}

// ErrorText is what an error says; "" for none.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// NewBareRig is a database without anything, and a configuration for it.
func NewBareRig(t *testing.T, pg *servers.PG, tables ...outbox.Table) *StoreRig {
	t.Helper()
	r := &StoreRig{Rig: &Rig{T: t, PG: pg, DB: pg.NewDatabase(t)}}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	r.Ctx, r.Conn = ctx, r.Connect()
	name := r.DB[:min(len(r.DB), 50)]
	r.Cfg = session.Config{Config: source.Config{Pipeline: name, URL: pg.SocketURL(r.DB), Tables: tables}, Slot: name, Publication: "pub " + name}
	t.Cleanup(r.DropSlot)
	return r
}

// Levels shows the findings of a level, one a line.
func Levels(findings []check.Finding, want check.Level) string {
	var lines []string
	for _, f := range findings {
		if f.Level == want {
			lines = append(lines, f.What+" => "+f.Fix)
		}
	}
	return strings.Join(lines, "\n")
}

// Check returns what check finds.
func (r *StoreRig) Check() []check.Finding {
	r.T.Helper()
	findings, err := setup.Check(r.Ctx, r.Cfg)
	if err != nil {
		r.T.Fatal(err)
	}
	return findings
}

// NewOwnerRig is a database with all that init makes but for slot and checkpoint.
func NewOwnerRig(t *testing.T) *StoreRig {
	t.Helper()
	r := NewBareRig(t, servers.Shared(t, "17"), Shape("debezium", "outbox"))
	script, err := setup.Script(r.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Exec(script)
	return r
}

// Positioned does what a first start does.
func (r *StoreRig) Positioned() {
	r.T.Helper()
	r.Open()
	snap, err := source.Begin(r.Ctx, stream.New(r.Cfg), true)
	if err != nil {
		r.T.Fatal(err)
	}
	if err := r.St.Save(r.Ctx, &checkpoint.Checkpoint{SourceID: "1/1", Resume: snap.Resume(), Log: 1}); err != nil {
		r.T.Fatal(err)
	}
	if err := errors.Join(snap.Close(r.Ctx), r.St.Close(r.Ctx)); err != nil {
		r.T.Fatal(err)
	}
}
