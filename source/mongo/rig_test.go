package mongo_test

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
