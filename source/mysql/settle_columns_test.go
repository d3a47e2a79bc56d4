package mysql

import (
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/test/servers"
)

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
