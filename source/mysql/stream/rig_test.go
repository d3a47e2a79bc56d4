package stream

import (
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// A sourceRig is a rig with a source of this package.
type sourceRig struct{ *mysqltest.SourceRig }

func newSourceRig(t testing.TB, my *servers.My, tables ...sourcetest.Table) *sourceRig {
	t.Helper()
	return &sourceRig{mysqltest.NewSourceRig(t, my, func(cfg server.Config) source.Source { return New(cfg) }, tables...)}
}

// source is the rig's source.
func (r *sourceRig) source() *Source { return r.Src.(*Source) }
