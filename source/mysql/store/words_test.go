package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/setup"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/test/servers"
)

// Words are values of the status column, of whatever type it is; what it cannot hold is told before anything is written. A column that
// cannot be NULL keeps what it has where there is nothing to show.
func TestWordsFit(t *testing.T) {
	numbers := outbox.Words{Pending: "0", Delivered: "1", Retrying: "2", Waiting: "0", Dead: "-9"}
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		for _, c := range []struct {
			typ   string
			words outbox.Words
			want  string
		}{
			{"TINYINT DEFAULT 0", numbers, ""},
			{"VARCHAR(2) DEFAULT '0'", numbers, ""},
			{"ENUM('Pending','delivered','retrying','waiting','dead') DEFAULT 'Pending'",
				outbox.Words{Pending: "Pending", Delivered: "delivered", Retrying: "retrying", Waiting: "waiting", Dead: "dead"}, ""},
			{"INT DEFAULT 0", outbox.DefaultWords(), `which has no value "pending" for pending messages: set words.pending`},
			{"TINYINT UNSIGNED DEFAULT 0", numbers, `no value "-9" for dead messages`},
			{"ENUM('pending','delivered','dead') DEFAULT 'pending'", outbox.DefaultWords(), `no value "retrying" for retrying messages`},
			{"VARCHAR(8) DEFAULT 'pending'", outbox.DefaultWords(), `no value "delivered" for delivered messages`},
			{"DATE", outbox.DefaultWords(), `is of type date`},
		} {
			t.Run(c.typ, func(t *testing.T) {
				table := outbox.Table{Name: "events", OnDelivered: outbox.Mark, Words: c.words, Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload",
					Status: "st", Failures: "tries", NextAttemptAt: "due", LastError: "err", DeliveredAt: "done", LastAttemptAt: "tried", UpdatedAt: "changed"}}
				r := newBareRig(t, my, append(mysqltest.RelayTables(), "CREATE TABLE events (id BIGINT PRIMARY KEY, type TEXT, payload TEXT, st "+c.typ+`,
					tries SMALLINT NOT NULL DEFAULT 0, due DATETIME NOT NULL DEFAULT '2000-01-01', err VARCHAR(4) NOT NULL DEFAULT '', done DATETIME, tried DATETIME, changed DATETIME)`), table)
				if c.want != "" {
					st, err := openStore(r.Ctx, r.Cfg)
					if err == nil {
						_ = st.Close(r.Ctx)
					}
					if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), c.want) {
						t.Errorf("open: %v, want %q", err, c.want)
					}
				}
				if _, err := setup.Init(r.Ctx, r.Cfg); c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("init: %v, want %q", err, c.want)
				}
				findings, err := setup.Check(r.Ctx, r.Cfg)
				if err != nil {
					t.Fatal(err)
				}
				told := false
				for _, f := range findings {
					told = told || strings.Contains(f.What, "status column") && strings.Contains(f.What, c.want)
				}
				if told != (c.want != "") {
					t.Errorf("check: %+v, want %q", findings, c.want)
				}
				if c.want != "" {
					return
				}
				r.Open()
				r.Exec("INSERT INTO events (id, type) VALUES (1, 'T'), (2, 'T'), (3, 'T')")
				show := func(id int) string {
					return r.Text(`SELECT CONCAT_WS(' ', st, tries, err, YEAR(due) > 2000, ABS(TIMESTAMPDIFF(SECOND, done, UTC_TIMESTAMP())) < 600,
						ABS(TIMESTAMPDIFF(SECOND, tried, UTC_TIMESTAMP())) < 600, ABS(TIMESTAMPDIFF(SECOND, changed, UTC_TIMESTAMP())) < 600) FROM events WHERE id = ?`, id)
				}
				table.Schema = r.DB
				m := &outbox.Message{ID: "2", Table: table.String(), Position: outbox.Position{Log: 1, Commit: 9}, Group: "g"}
				r.Settle(checkpoint.Settlement{Rows: []checkpoint.Row{{Table: table.String(), ID: "1", Position: outbox.Position{Log: 1, Commit: 1}}}})
				mysqltest.Equal(t, "delivered", show(1), c.words.Delivered+" 0  0 1 1 1")
				r.ParkWhole(sourcetest.Dead("kafka", m, true))
				mysqltest.Equal(t, "dead", show(2), c.words.Dead+" 15 bad 0 1 1")
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", m, 3, 60e9)}})
				mysqltest.Equal(t, "retrying", r.Text("SELECT CONCAT_WS(' ', st, tries, err, YEAR(due) > 2000) FROM events WHERE id = 2"), c.words.Retrying+" 3 agai 1")
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m)}})
				if got := show(2); !strings.HasPrefix(got, c.words.Delivered+" 3  ") || !strings.HasSuffix(got, " 1 1 1 1") {
					t.Errorf("delivered at last: %s", got)
				}
				mysqltest.Equal(t, "pending", r.Text("SELECT COUNT(*) FROM events t WHERE "+r.store().tables.Order[0].Pending()), "1")
			})
		}
	})
}

// Tables of flowcatalyst's clients are made as they document them.
func TestFlowcatalystIsMade(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		shape, _ := outbox.ShapeNamed("flowcatalyst")
		r := newBareRig(t, my, nil, shape.Table("outbox_events"), shape.Table("outbox_dispatch_jobs"))
		for range 2 {
			if _, err := setup.Init(r.Ctx, r.Cfg); err != nil {
				t.Fatal(err)
			}
		}
		mysqltest.Equal(t, "indexes", r.Text("SELECT GROUP_CONCAT(DISTINCT INDEX_NAME ORDER BY INDEX_NAME) FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() "+
			"AND TABLE_NAME LIKE 'outbox%'"), "idx_outbox_dispatch_jobs_status,idx_outbox_events_status,PRIMARY")
		findings, err := setup.Check(r.Ctx, r.Cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Level == check.Problem || strings.Contains(f.What, "table") {
				t.Errorf("check: %+v", f)
			}
		}
	})
	if _, err := schema.TableSQL(&outbox.Table{Name: "x", Shape: "memo"}); err == nil || !strings.Contains(err.Error(), `tables of shape "memo"`) {
		t.Errorf("a table of another shape: %v", err)
	}
}

// Check finds no fault with an id that works, and says of kept rows that they cannot be swept, whether there is a position or not.
func TestCheckLatin1AndKept(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table := outbox.Table{Name: "events", OnDelivered: outbox.Keep, Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload"}}
		r := newBareRig(t, my, append(mysqltest.RelayTables(), "CREATE TABLE events (id VARCHAR(255) CHARACTER SET latin1 PRIMARY KEY, type TEXT, payload TEXT)"), table)
		for _, when := range []string{"before", "after"} {
			findings, err := setup.Check(r.Ctx, r.Cfg)
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(findings)
			if strings.Contains(text, "the id, is a") || strings.Count(text, "cannot be swept") != 1 {
				t.Errorf("check %s there is a position: %s", when, text)
			}
			r.Exec("REPLACE INTO tailbox_checkpoint (pipeline, resume, source_id, schema_version) VALUES ('p', 'here', 's', 1)")
		}
	})
}
