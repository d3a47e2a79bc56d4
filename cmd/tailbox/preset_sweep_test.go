package main

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// TestSweepByWords: where the words for pending and retrying are one, a lost slot delivers what was never delivered, and neither what is
// parked nor what is done.
func TestSweepByWords(t *testing.T) {
	t.Parallel()
	mail := servers.StartMail(t, servers.MailOptions{})
	mail.On(func(e servers.MailEvent) error {
		switch {
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "busy"):
			return servers.MailAnswer(451, "try again")
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "nobody"):
			return servers.MailAnswer(550, "no such user")
		}
		return nil
	})
	r := newRig(t, strings.Replace(memoConfig, "[20ms, 20ms, 20ms, 2100ms]", "[1h]", 1))
	r.env["MAIL"] = mail.Addr()
	r.must("init")
	stop := r.relay()
	insert := func(recipient string) string {
		t.Helper()
		return r.insert(`INSERT INTO email_outbox (memo_id, event_type, payload, recipient_email, notification_type)
			VALUES (gen_random_uuid(), 'memo.created', '{"subject": "s", "body": "b"}', $1, 'MEMO_CREATED') RETURNING id::text`, recipient)
	}
	const show = `SELECT status || ' ' || retry_count FROM email_outbox WHERE id = $1`
	sent, busy, wrong := insert("ann@example.org"), insert("busy@example.org"), insert("nobody@example.org")
	r.shows("SENT 0", show, sent)
	r.shows("PENDING 1", show, busy)
	r.shows("FAILED 1", show, wrong)
	if got := stop(); got.code != exitDone {
		t.Fatalf("run: %+v", got)
	}
	r.sql("SELECT pg_drop_replication_slot($1)", r.env["SLOT"])
	missed := insert("carol@example.org")
	stop = r.relay()
	r.shows("SENT 0", show, missed)
	r.shows("FAILED 1", show, wrong)
	r.sql("UPDATE email_outbox SET recipient_email = 'dave@example.org', status = 'PENDING', retry_count = 0, error_message = NULL WHERE id = $1", wrong)
	r.shows("SENT", "SELECT status FROM email_outbox WHERE id = $1", wrong)
	r.shows("PENDING 1", show, busy)
	if got := r.ask("SELECT string_agg(message_id || state, ' ') FROM tailbox_parked"); got != busy+"retrying" {
		t.Errorf("parked: %s, want %s", got, busy)
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	var to []string
	for _, m := range mail.Mails() {
		to = append(to, strings.TrimSuffix(m.To[0], "@example.org"))
	}
	if got := strings.Join(to, " "); got != "ann carol dave" {
		t.Errorf("mails went to %s", got)
	}
}
