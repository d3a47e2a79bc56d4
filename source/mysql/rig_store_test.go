package mysql

import (
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// A storeRig is a rig with a store of this package.
type storeRig struct{ *baseRig }

// newBareRig makes a database with tables, and no store.
func newBareRig(t testing.TB, my *servers.My, ddl []string, tables ...outbox.Table) *storeRig {
	t.Helper()
	return &storeRig{bareRig(t, my, Open, ddl, tables...)}
}

// newStoreRig makes tables of the shapes, and opens and loads a store. Change may alter the configuration.
func newStoreRig(t testing.TB, my *servers.My, change func(*config), tables ...outbox.Table) *storeRig {
	t.Helper()
	return &storeRig{loadedRig(t, my, Open, change, tables...)}
}

// store is the rig's store.
func (r *storeRig) store() *stateStore { return r.st.(*stateStore) }
