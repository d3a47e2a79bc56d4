package mysql

import (
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// A sourceRig is a rig with a source of this package.
type sourceRig struct{ *sourceBase }

func newSourceRig(t testing.TB, my *servers.My, tables ...sourcetest.Table) *sourceRig {
	t.Helper()
	return &sourceRig{rigWithSource(t, my, func(cfg config) source.Source { return New(cfg) }, tables...)}
}

// source is the rig's source.
func (r *sourceRig) source() *Source { return r.src.(*Source) }
