package mysql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/operator"
	"github.com/tailbox/tailbox/source/mysql/polling"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/setup"
	"github.com/tailbox/tailbox/source/store/check"
)

// TestPollRefused: what cannot be polled in order is refused, with what fixes it, by the source and by Check.
func TestPollRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, what string }{
		"no number":    {"ALTER TABLE outbox DROP COLUMN seq", "has no sequence column"},
		"not drawn":    {"ALTER TABLE outbox MODIFY seq BIGINT UNSIGNED NOT NULL", "not filled by AUTO_INCREMENT"},
		"engine":       {"ALTER TABLE outbox DROP INDEX idempotency_key, ENGINE = MyISAM", "engine MyISAM"},
		"small number": {"ALTER TABLE outbox MODIFY seq INT NOT NULL AUTO_INCREMENT", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, app *server.Conn) {
				mysqltest.Do(t, app, c.sql)
				_, err := polling.New(d.Cfg).Examine(context.Background(), "", "")
				findings, cerr := setup.Check(context.Background(), d.Cfg)
				if cerr != nil {
					t.Fatal(cerr)
				}
				told := false
				for _, f := range findings {
					told = told || f.Level == check.Problem && c.what != "" && strings.Contains(f.What, c.what) && f.Fix != ""
					if f.Level == check.Problem && c.what == "" {
						t.Errorf("check: %s", f.What)
					}
				}
				if c.what == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.what) || !told {
					t.Errorf("Examine: %v; check has told %v: %+v", err, told, findings)
				}
			})
		})
	}
}

// TestPollRights: an account with no more than RoleSQL grants can poll; without PROCESS it is told.
func TestPollRights(t *testing.T) {
	t.Parallel()
	mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, _ *server.Conn) {
		ctx := context.Background()
		name := d.DB[max(0, len(d.DB)-30):]
		account := "'" + name + "'@'%'"
		grants := strings.Split(strings.TrimSuffix(strings.TrimSpace(setup.RoleSQL(d.Cfg, account, d.DB)), ";"), ";\n")
		if err := d.My.Exec(ctx, d.DB, append([]string{"CREATE USER " + account}, grants...)...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.My.Exec(context.Background(), d.DB, "DROP USER "+account) })
		cfg := d.Cfg
		cfg.URL = strings.Replace(cfg.URL, "root@", name+"@", 1)
		findings, err := setup.Check(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Level == check.Problem {
				t.Errorf("%s: %s", f.What, f.Fix)
			}
		}
		if _, err := polling.New(cfg).Examine(ctx, "", ""); err != nil {
			t.Error(err)
		}
		if err := d.My.Exec(ctx, d.DB, "REVOKE PROCESS ON *.* FROM "+account); err != nil {
			t.Fatal(err)
		}
		_, err = polling.New(cfg).Examine(ctx, "", "")
		if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "GRANT PROCESS ON *.* TO "+account) {
			t.Errorf("Examine without the right: %v", err)
		}
	})
}

// Status tells of numbers that only an unsigned column holds.
func TestPollReportsLargeNumbers(t *testing.T) {
	t.Parallel()
	mysqltest.EachPolled(t, func(t *testing.T, d *mysqltest.Database, app *server.Conn) {
		mysqltest.Do(t, app, "INSERT INTO outbox (type, payload, seq) VALUES ('t', '{}', 9223372036854775813)")
		r, err := operator.Status(context.Background(), d.Cfg)
		if err != nil || r.Poll == nil || r.Poll.Last != 1<<63+5 {
			t.Errorf("status: %+v, %v, want polling at 2^63 + 5", r.Poll, err)
		}
	})
}
