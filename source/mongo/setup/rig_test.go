package setup

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/test/servers"
)

// newRig is a rig whose collections are made.
func newRig(t testing.TB, server *servers.MongoServer, tables ...outbox.Table) *mongotest.Rig {
	t.Helper()
	return mongotest.New(t, server, Init, tables...)
}

// opened opens and loads a store that the test closes at its end.
func opened(r *mongotest.Rig) checkpoint.Store {
	r.T.Helper()
	s, err := store.Open(r.Ctx, r.Config)
	r.Must(err)
	r.Load(s)
	return s
}
