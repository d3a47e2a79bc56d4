package mysql

import (
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

// A column for attempts that is full shows the most that it holds, and the settlement goes on.
func TestCountsThatDoNotFit(t *testing.T) {
	for typ, most := range map[string]string{"TINYINT": "127", "TINYINT UNSIGNED": "255", "SMALLINT": "32767", "SMALLINT UNSIGNED": "40000",
		"DECIMAL(3,0)": "999", "DECIMAL(5,1)": "9999.0", "INT": "40000"} {
		t.Run(typ, func(t *testing.T) {
			onBoth(t, func(t *testing.T, my *servers.My) {
				r := newStoreRig(t, my, func(c *config) { c.Tables[0].Columns.Failures = "failures" }, storeShape("tailbox", "outbox"))
				r.exec("ALTER TABLE outbox MODIFY attempts " + typ + " NOT NULL DEFAULT 0, ADD failures " + typ)
				r.reopen()
				r.row(1)
				r.row(2)
				m, other := r.msg(1, "g"), r.msg(2, "h")
				r.parkWhole(head("kafka", m, time.Hour), head("kafka", other, time.Hour))
				tried := func() string { return r.text("SELECT last_attempt_at FROM outbox WHERE id = ?", m.ID) }
				show := func() string {
					return r.text("SELECT CONCAT_WS(' ', status, attempts, failures) FROM outbox WHERE id = ?", m.ID)
				}
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", m, 40000, 0), retried("kafka", other, 1, 0)}})
				equal(t, "row", show(), "retrying "+most+" "+most)
				before := tried()
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", m, 40001, 0)}})
				if typ != "INT" && typ != "SMALLINT UNSIGNED" {
					equal(t, "row", show(), "retrying "+most+" "+most)
				}
				if now := tried(); now <= before {
					t.Errorf("last attempt at %s, and the one before at %s", now, before)
				}
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{delivered("kafka", m), delivered("kafka", other)}})
				equal(t, "delivered", r.text("SELECT GROUP_CONCAT(status) FROM outbox"), "delivered,delivered")
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
			onBoth(t, func(t *testing.T, my *servers.My) {
				r := newStoreRig(t, my, nil, storeShape("tailbox", "outbox"))
				r.exec("SET time_zone = '+00:00'")
				r.exec("ALTER TABLE outbox MODIFY next_attempt_at " + typ)
				r.reopen()
				r.row(1)
				r.row(2)
				m := r.msg(1, "")
				m.AvailableAt = time.Now().Add(far)
				late := checkpoint.Parked{Sink: "kafka", Message: m, State: checkpoint.StateWaiting, Due: true, NextAttempt: far}
				again := head("kafka", r.msg(2, "g"), time.Hour)
				show := func(id string) string {
					return r.text("SELECT DATE_FORMAT(next_attempt_at, '%Y-%m-%d %H:%i:%s') FROM outbox WHERE id = ?", id)
				}
				r.parkWhole(late, again)
				equal(t, "a time that fits", r.text("SELECT ABS(TIMESTAMPDIFF(SECOND, o.next_attempt_at, p.next_attempt_at)) < 2 FROM outbox o, tailbox_parked p "+
					"WHERE o.id = ? AND p.message_id = ?", again.Message.ID, again.Message.ID), "1")
				if want == "" {
					equal(t, "the far time", r.text("SELECT ABS(TIMESTAMPDIFF(SECOND, o.next_attempt_at, p.next_attempt_at)) < 2 FROM outbox o, tailbox_parked p "+
						"WHERE o.id = ? AND p.message_id = ?", m.ID, m.ID), "1")
				} else {
					equal(t, "the far time", show(m.ID), want)
				}
				r.settle(checkpoint.Settlement{Changes: []checkpoint.Change{retried("kafka", again.Message, 2, far)}})
				if want != "" {
					equal(t, "a far retry", show(again.Message.ID), want)
				}
				equal(t, "years that it waits", r.text("SELECT GROUP_CONCAT(TIMESTAMPDIFF(YEAR, UTC_TIMESTAMP(6), next_attempt_at)) FROM tailbox_parked"), "291,291")
			})
		})
	}
}

// A text with an offset can be a time that is out of the range of DATETIME, which the copy of the message is kept in.
func TestTimesOutOfYears(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, nil, storeShape("debezium", "outbox"))
		for i, text := range []string{"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"} {
			at, err := parseTime(text)
			if err != nil {
				t.Fatal(err)
			}
			m := r.msg(i+1, "")
			m.AvailableAt, m.CreatedAt = at, at
			r.park(head("kafka", m, 0))
		}
		ps, _, err := r.st.Due(r.ctx, &checkpoint.DueQuery{Sinks: []string{"kafka"}, Limit: 10, Bytes: 16 << 20})
		if err != nil || len(ps) != 2 {
			t.Fatal(len(ps), err)
		}
		equal(t, "the far one", ps[0].Message.AvailableAt, lastDatetime)
		equal(t, "the early one", ps[1].Message.AvailableAt, time.Time{})
	})
}

// A statement may end in a comment: the next one is none of it.
func TestFeedbackThatEndsInAComment(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, func(c *config) {
			c.Tables[0].Feedback = outbox.Feedback{outbox.OutcomeDead: "UPDATE orders SET state = :error WHERE id = :id -- by key"}
			c.Feedback = func(table, outcome string, n int, why error) {
				if why != nil {
					t.Errorf("feedback %s of %s: %v", outcome, table, why)
				}
			}
		}, storeShape("debezium", "outbox"))
		r.exec("CREATE TABLE orders (id CHAR(36) PRIMARY KEY, state TEXT)")
		r.exec("INSERT INTO orders (id) VALUES (?), (?)", eventID(1), eventID(2))
		r.settle(checkpoint.Settlement{Park: []checkpoint.Parked{dead("kafka", r.msg(1, "g"), true), dead("kafka", r.msg(2, "h"), true)}})
		equal(t, "orders", r.text("SELECT GROUP_CONCAT(state) FROM orders"), "bad,bad")
	})
}
