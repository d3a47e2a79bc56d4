package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// yantraTable is the table as that system documents it, without the index on columns that it does not have.
const yantraTable = `CREATE TABLE outbox_messages (
	id UUID PRIMARY KEY, node_execution_id UUID NOT NULL, event_type VARCHAR(50) NOT NULL, payload JSONB NOT NULL, status VARCHAR(20) NOT NULL,
	attempts INT NOT NULL DEFAULT 0, max_attempts INT NOT NULL DEFAULT 4, created_at TIMESTAMP NOT NULL, processed_at TIMESTAMP, last_attempt_at TIMESTAMP,
	next_retry_at TIMESTAMP, last_error TEXT, idempotency_key VARCHAR(255) UNIQUE);
	CREATE INDEX idx_outbox_status_created ON outbox_messages (status, created_at) WHERE status = 'pending'`

const yantraConfig = `
pipeline: yantra
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 500ms, tables: [{shape: yantra}]}
routes:
  - {match: {type: email.send}, to: [mail]}
  - {match: {type: slack.send}, to: [slack]}
sinks:
  mail: {kind: smtp, address: "${MAIL}", from: workflow@example.org}
  slack: {kind: slack, webhook_url: "${SLACK}/services/T/B/x"}
admin: {listen: off}
`

// TestYantra: rows of the table as it is documented become mails and Slack messages. A mail that is refused is tried again after 2, 4 and 8 minutes, over
// restarts, and then is a dead letter that an admin replays. Time passes by what tailbox_parked says.
func TestYantra(t *testing.T) {
	t.Parallel()
	mail := servers.StartMail(t, servers.MailOptions{})
	slack := newPlatform(t, "")
	slack.any = true
	r := newRig(t, yantraConfig)
	r.env["MAIL"], r.env["SLACK"] = mail.Addr(), slack.URL
	r.sql(yantraTable)
	r.must("init")
	r.must("check")
	stop := r.relay()
	insert := func(kind, payload string, attempts int) string {
		t.Helper()
		return r.insert(`INSERT INTO outbox_messages (id, node_execution_id, event_type, payload, status, attempts, max_attempts, created_at, idempotency_key)
			VALUES (gen_random_uuid(), gen_random_uuid(), $1, $2, 'pending', 0, $3, now() AT TIME ZONE 'UTC', gen_random_uuid()) RETURNING id::text`, kind, payload, attempts)
	}
	letter := func(to, subject string) string {
		return fmt.Sprintf(`{"to": %q, "subject": %q, "body": "Your order is ready."}`, to, subject)
	}
	// The row may be written a moment after the attempt was: where the settlement does not see it yet.
	const show = `SELECT concat_ws(' ', status, attempts, processed_at IS NOT NULL, date_trunc('minute', next_retry_at - last_attempt_at + interval '30 seconds'),
		last_error IS NOT NULL) FROM outbox_messages WHERE id = $1`
	sent := insert("email.send", letter("ann@example.org", "ready"), 4)
	posted := insert("slack.send", `{"channel": "#orders", "text": "ready"}`, 4)
	r.shows("completed 0 t f", show, sent)
	r.shows("completed 0 t f", show, posted)
	if got := mail.Mails(); len(got) != 1 || got[0].To[0] != "ann@example.org" || !strings.Contains(string(got[0].Data), "Your order is ready.") ||
		!strings.Contains(string(got[0].Data), sent) {
		t.Errorf("mails: %+v", got)
	}
	if got := slack.took("/services/T/B/x", ""); got != 1 {
		t.Errorf("posted to Slack: %d times, want once", got)
	}

	mail.On(func(e servers.MailEvent) error {
		if e.Step == "rcpt" && strings.HasPrefix(e.Arg, "busy") {
			return servers.MailAnswer(450, "mailbox is busy")
		}
		return nil
	})
	busy := insert("email.send", letter("busy@example.org", "again"), 4)
	once := insert("email.send", letter("busy@example.org", "once"), 1)
	for i, delay := range []string{"00:02:00", "00:04:00", "00:08:00"} {
		r.shows(fmt.Sprintf("pending %d f %s t", i+1, delay), show, busy)
		if got := stop(); got.code != exitDone {
			t.Fatalf("run: %+v", got)
		}
		stop = r.relay()
		works := insert("email.send", letter("carol@example.org", "in between"), 4) // or nothing tells that it is the mail
		r.shows("completed 0 t f", show, works)
		r.sql("UPDATE tailbox_parked SET next_attempt_at = next_attempt_at - interval '10 minutes'")
		until(t, "the end of the other letter, by its own limit", func() bool {
			// The relay that was stopped may not have tried it, so that it was stored only now.
			r.sql("UPDATE tailbox_parked SET next_attempt_at = next_attempt_at - interval '10 minutes' WHERE message_id = '" + once + "'")
			return r.ask(show, once) == "dead_letter 1 f t"
		})
	}
	r.shows("dead_letter 4 f t", show, busy)
	behind := insert("email.send", letter("bob@example.org", "goes on"), 4)
	r.shows("completed 0 t f", show, behind)

	mail.On(nil)
	if out := r.must("dead", "replay", busy); !strings.Contains(out, "1 delivery") {
		t.Errorf("dead replay: %s", out)
	}
	r.shows("completed t f", `SELECT concat_ws(' ', status, processed_at IS NOT NULL, last_error IS NOT NULL) FROM outbox_messages WHERE id = $1`, busy)
	r.sql("UPDATE outbox_messages SET status = 'pending' WHERE id = $1 AND status = 'dead_letter'", once)
	r.shows("completed", "SELECT status FROM outbox_messages WHERE id = $1", once)
	r.shows("0", "SELECT count(*) FROM outbox_messages WHERE processed_at NOT BETWEEN created_at AND created_at + interval '10 minutes'")
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}
