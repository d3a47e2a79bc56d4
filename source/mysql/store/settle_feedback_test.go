package store

import (
	"errors"
	"testing"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/sourcetest"
	"github.com/tailbox/tailbox/source/store/feedback"
	"github.com/tailbox/tailbox/test/servers"
)

// The log shows a transaction before others see it: feedback that finds its business row by no index waits for it. A statement that finds no
// row at all is counted.
func TestFeedbackAwaitsVisibility(t *testing.T) {
	mysqltest.OnBoth(t, func(t *testing.T, my *servers.My) {
		table := mysqltest.StoreShape("tailbox", "outbox")
		table.OnDelivered = outbox.Keep
		table.Feedback = outbox.Feedback{outbox.OutcomeRetrying: "UPDATE business SET state = :outcome WHERE name = :id"}
		counts := map[error]int{}
		r := newStoreRig(t, my, func(c *server.Config) { c.Feedback = func(_, _ string, n int, why error) { counts[why] += n } }, table)
		r.Exec("CREATE TABLE business (n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(100), state VARCHAR(20))")
		one, two := r.Msg(1, "g"), r.Msg(2, "h")
		other := r.Connect()
		for _, err := range []error{other.Begin(), func() error {
			_, err := other.Execute("INSERT INTO outbox (id, type, payload) VALUES (?, 'T', '{}')", one.ID)
			return err
		}(), func() error {
			_, err := other.Execute("INSERT INTO business (name, state) VALUES (?, 'new')", one.ID)
			return err
		}()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		settled := make(chan error, 1)
		go func() {
			_, err := r.St.Settle(r.Ctx, &checkpoint.Settlement{Park: []checkpoint.Parked{sourcetest.Head("kafka", one, time.Hour), sourcetest.Head("kafka", two, time.Hour)}})
			settled <- err
		}()
		early := false
		r.Until("it waits", func() bool {
			early = len(settled) > 0
			return early || r.Runs("FROM ", "outbox", " SHARE")
		})
		if err := errors.Join(other.Commit(), <-settled); err != nil || early {
			t.Errorf("settle: %v, before the transaction was over: %v", err, early)
		}
		mysqltest.Equal(t, "the business row", r.Text("SELECT state FROM business"), "retrying")
		mysqltest.Equal(t, "counted", counts, map[error]int{nil: 1, feedback.ErrUnchanged: 1})
	})
}
