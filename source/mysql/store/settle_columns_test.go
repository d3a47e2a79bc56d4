package store

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/test/servers"
)

// A column for attempts that is full shows the most that it holds, and the settlement goes on.
func TestCountsThatDoNotFit(t *testing.T) {
	for typ, most := range map[string]string{"TINYINT": "127", "TINYINT UNSIGNED": "255", "SMALLINT": "32767", "SMALLINT UNSIGNED": "40000",
		"DECIMAL(3,0)": "999", "DECIMAL(5,1)": "9999.0", "INT": "40000"} {
		t.Run(typ, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				r := newStoreRig(t, my, nil, mysqltest.StoreShape("tailbox", "outbox"))
				r.Exec("ALTER TABLE outbox MODIFY attempts " + typ + " NOT NULL DEFAULT 0, ADD failures " + typ)
				r.Cfg.Tables[0].Columns.Failures = "failures"
				r.Reopen()
				r.Row(1)
				r.Row(2)
				m, other := r.Msg(1, "g"), r.Msg(2, "h")
				r.ParkWhole(sourcetest.Head("kafka", m, time.Hour), sourcetest.Head("kafka", other, time.Hour))
				tried := func() string { return r.Text("SELECT last_attempt_at FROM outbox WHERE id = ?", m.ID) }
				show := func() string {
					return r.Text("SELECT CONCAT_WS(' ', status, attempts, failures) FROM outbox WHERE id = ?", m.ID)
				}
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", m, 40000, 0), sourcetest.Retried("kafka", other, 1, 0)}})
				mysqltest.Equal(t, "row", show(), "retrying "+most+" "+most)
				before := tried()
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", m, 40001, 0)}})
				if typ != "INT" && typ != "SMALLINT UNSIGNED" {
					mysqltest.Equal(t, "row", show(), "retrying "+most+" "+most)
				}
				if now := tried(); now <= before {
					t.Errorf("last attempt at %s, and the one before at %s", now, before)
				}
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Delivered("kafka", m), sourcetest.Delivered("kafka", other)}})
				mysqltest.Equal(t, "delivered", r.Text("SELECT GROUP_CONCAT(status) FROM outbox"), "delivered,delivered")
			})
		})
	}
}

// A row that is to be sent after the end of TIMESTAMP shows that end; no other settlement is held up.
func TestTimesThatDoNotFit(t *testing.T) {
	const far = 292 * 365 * 24 * time.Hour
	const end = "2038-01-19 03:14:07"
	for typ, want := range map[string]string{"TIMESTAMP(6) NULL": end, "TIMESTAMP NULL": end, "TIMESTAMP(6) NOT NULL DEFAULT '2000-01-01'": end,
		"DATETIME(6)": "", "DATETIME": ""} {
		t.Run(typ, func(t *testing.T) {
			mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
				r := newStoreRig(t, my, nil, mysqltest.StoreShape("tailbox", "outbox"))
				r.Exec("SET time_zone = '+00:00'")
				r.Exec("ALTER TABLE outbox MODIFY next_attempt_at " + typ)
				r.Reopen()
				r.Row(1)
				r.Row(2)
				m := r.Msg(1, "")
				m.AvailableAt = time.Now().Add(far)
				late := checkpoint.Parked{Sink: "kafka", Message: m, State: checkpoint.StateWaiting, Due: true, NextAttempt: far}
				again := sourcetest.Head("kafka", r.Msg(2, "g"), time.Hour)
				show := func(id string) string {
					return r.Text("SELECT DATE_FORMAT(next_attempt_at, '%Y-%m-%d %H:%i:%s') FROM outbox WHERE id = ?", id)
				}
				r.ParkWhole(late, again)
				mysqltest.Equal(t, "a time that fits", r.Text("SELECT ABS(TIMESTAMPDIFF(SECOND, o.next_attempt_at, p.next_attempt_at)) < 2 FROM outbox o, tailbox_parked p "+
					"WHERE o.id = ? AND p.message_id = ?", again.Message.ID, again.Message.ID), "1")
				if want == "" {
					mysqltest.Equal(t, "the far time", r.Text("SELECT ABS(TIMESTAMPDIFF(SECOND, o.next_attempt_at, p.next_attempt_at)) < 2 FROM outbox o, tailbox_parked p "+
						"WHERE o.id = ? AND p.message_id = ?", m.ID, m.ID), "1")
				} else {
					mysqltest.Equal(t, "the far time", show(m.ID), want)
				}
				r.Settle(checkpoint.Settlement{Changes: []checkpoint.Change{sourcetest.Retried("kafka", again.Message, 2, far)}})
				if want != "" {
					mysqltest.Equal(t, "a far retry", show(again.Message.ID), want)
				}
				mysqltest.Equal(t, "years that it waits", r.Text("SELECT GROUP_CONCAT(TIMESTAMPDIFF(YEAR, UTC_TIMESTAMP(6), next_attempt_at)) FROM tailbox_parked"), "291,291")
			})
		})
	}
}

// A text with an offset can be a time that is out of the range of DATETIME, which the copy of the message is kept in.
func TestTimesOutOfYears(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, mysqltest.StoreShape("debezium", "outbox"))
		for i, text := range []string{"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"} {
			at, err := catalog.ParseTime(text)
			if err != nil {
				t.Fatal(err)
			}
			m := r.Msg(i+1, "")
			m.AvailableAt, m.CreatedAt = at, at
			r.Park(sourcetest.Head("kafka", m, 0))
		}
		ps, _, err := r.St.Due(r.Ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
		if err != nil || len(ps) != 2 {
			t.Fatal(len(ps), err)
		}
		mysqltest.Equal(t, "the far one", ps[0].Message.AvailableAt, quote.LastDatetime)
		mysqltest.Equal(t, "the early one", ps[1].Message.AvailableAt, time.Time{})
	})
}

// A statement may end in a comment: the next one is none of it.
func TestFeedbackThatEndsInAComment(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, func(c *server.Config) {
			c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = :error WHERE id = :id -- by key"}
			c.Feedback = func(table, outcome string, n int, why error) {
				if why != nil {
					t.Errorf("feedback %s of %s: %v", outcome, table, why)
				}
			}
		}, mysqltest.StoreShape("debezium", "outbox"))
		r.Exec("CREATE TABLE orders (id CHAR(36) PRIMARY KEY, state TEXT)")
		r.Exec("INSERT INTO orders (id) VALUES (?), (?)", sourcetest.EventID(1), sourcetest.EventID(2))
		r.Settle(checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Dead("kafka", r.Msg(1, "g"), true), sourcetest.Dead("kafka", r.Msg(2, "h"), true)}})
		mysqltest.Equal(t, "orders", r.Text("SELECT GROUP_CONCAT(state) FROM orders"), "bad,bad")
	})
}
