package mongo

import "github.com/tailbox/tailbox/source/mongo/mongotest"

// opened opens and loads a store that the test closes at its end.
func opened(r *mongotest.Rig) *stateStore {
	r.T.Helper()
	s, err := openStore(r.Ctx, r.Config)
	r.Must(err)
	r.Load(s)
	return s
}
