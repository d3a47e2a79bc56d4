package store

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/setup"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// newRig is a rig whose collections are made, with a source.
func newRig(t testing.TB, server *servers.MongoServer, tables ...outbox.Table) *mongotest.Rig {
	t.Helper()
	r := mongotest.New(t, server, setup.Init, tables...)
	r.Source = stream.New(r.Config)
	return r
}

// opened opens and loads a store that the test closes at its end.
func opened(r *mongotest.Rig) *Store {
	r.T.Helper()
	s, err := open(r.Ctx, r.Config)
	r.Must(err)
	r.Load(s)
	return s
}
