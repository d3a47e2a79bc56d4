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
				r := newStoreRig(t, my, func(c *Config) { c.Tables[0].Columns.Failures = "failures" }, storeShape("tailbox", "outbox"))
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

// A statement may end in a comment: the next one is none of it.
func TestFeedbackThatEndsInAComment(t *testing.T) {
	onBoth(t, func(t *testing.T, my *servers.My) {
		r := newStoreRig(t, my, func(c *Config) {
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
