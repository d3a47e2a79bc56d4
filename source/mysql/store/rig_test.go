package store

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/test/servers"
)

// A storeRig is a rig with a store of this package.
type storeRig struct{ *mysqltest.StoreRig }

// newBareRig makes a database with tables, and no store.
func newBareRig(t testing.TB, my *servers.My, ddl []string, tables ...outbox.Table) *storeRig {
	t.Helper()
	return &storeRig{mysqltest.NewBareRig(t, my, Open, ddl, tables...)}
}

// newStoreRig makes tables of the shapes, and opens and loads a store. Change may alter the configuration.
func newStoreRig(t testing.TB, my *servers.My, change func(*server.Config), tables ...outbox.Table) *storeRig {
	t.Helper()
	return &storeRig{mysqltest.NewStoreRig(t, my, Open, change, tables...)}
}

// store is the rig's store.
func (r *storeRig) store() *Store { return r.St.(*Store) }
