package setup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/test/servers"
)

// A server that keeps databases out of its log is refused where the outbox is in one of them, with the fix; others are of no
// concern.
func TestDatabasesOutOfTheLog(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		for option, refused := range map[string]bool{"binlog-do-db=other": true, "binlog-ignore-db=other": false} {
			t.Run(option, func(t *testing.T) {
				t.Parallel()
				name, value, _ := strings.Cut(option, "=")
				r := mysqltest.NewSourceRig(t, servers.MySQL(t, kind, servers.WithSetting(name, value)), newSource)
				findings, err := Check(r.Ctx, r.Cfg)
				if err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprint(findings)
				if told := mysqltest.CountProblems(findings) > 0 && strings.Contains(text, "binlog_do_db"); told != refused {
					t.Errorf("check with %s: %s", option, text)
				}
				if refused {
					if _, err := r.Src.Establish(r.Ctx); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_do_db") {
						t.Errorf("establish with %s: %v", option, err)
					}
					return
				}
				x := r.Run(r.Establish())
				r.Exec(mysqltest.Insert(1))
				x.Until("1")
				x.Stop()
				// The outbox in the database that is left out.
				r.Exec("CREATE DATABASE other", "CREATE TABLE other.outbox LIKE outbox")
				r.Cfg.Tables[0].Schema = "other"
				r.Renew()
				if err := r.Run(x.Resume).Fails(); !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "binlog_ignore_db") {
					t.Errorf("Run with a table that is left out: %v", err)
				}
			})
		}
	})
}
