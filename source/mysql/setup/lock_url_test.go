package setup

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	mystore "github.com/tailbox/tailbox/source/mysql/store"
	"github.com/tailbox/tailbox/test/servers"
)

// A relay whose lock is on another server would settle there what it reads here. Init and check refuse that.
func TestLockURLOfAnotherServer(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		other := servers.MySQL(t, my.Kind)
		r := mysqltest.NewBareRig(t, my, mystore.Open, nil)
		const want = "source.lock_url leads to server "
		for name, c := range map[string]struct {
			url     string
			refused bool
		}{
			"the same, over TCP": {my.URL(r.DB), false},
			"another":            {other.URL(other.NewDatabase(t)), true},
		} {
			r.Cfg.LockURL = c.url
			findings, err := Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			var told bool
			for _, f := range findings {
				told = told || strings.HasPrefix(f.What, want)
			}
			if told != c.refused {
				t.Errorf("%s: check: %v", name, findings)
			}
			if _, err = Init(r.Ctx, r.Cfg); c.refused != (err != nil && strings.Contains(err.Error(), want)) {
				t.Errorf("%s: init: %v", name, err)
			}
		}
	})
}
