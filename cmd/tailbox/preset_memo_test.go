package main

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

const memoConfig = `
pipeline: memo
source: {kind: postgres, url: "${DATABASE_URL}", slot: "${SLOT}", reconcile: 500ms, tables: [{shape: memo}]}
sinks: {mail: {kind: smtp, address: "${MAIL}", from: memo@example.org, to: "header:to"}}
retry: {schedule: [20ms, 20ms, 20ms, 2100ms]}
admin: {listen: off}
`

// TestMemo: notifications of a table made by init are mailed to the recipient of the row. One that fails five times, or whose recipient is
// refused, is FAILED; the recipient is corrected with SQL, and the mail goes to the new one.
func TestMemo(t *testing.T) {
	t.Parallel()
	mail := servers.StartMail(t, servers.MailOptions{})
	r := newRig(t, memoConfig)
	r.env["MAIL"] = mail.Addr()
	r.must("init")
	r.must("check")
	r.sql("CREATE TABLE memos (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), title varchar(500) NOT NULL)")
	stop := r.relay()
	// As the application does: the memo and its mail in one transaction, the key made of what they are.
	insert := func(recipient, subject string) string {
		t.Helper()
		return r.insert(`WITH memo AS (INSERT INTO memos (title) VALUES ($2) RETURNING id)
			INSERT INTO email_outbox (memo_id, event_type, payload, recipient_email, notification_type, idempotency_key)
			SELECT id, 'memo.created', jsonb_build_object('subject', $2::text, 'body', 'A memo was made.'), $1::text, 'MEMO_CREATED', id || '-memo.created-' || $1::text FROM memo
			RETURNING id::text`, recipient, subject)
	}
	const show = `SELECT concat_ws(' ', status, retry_count, sent_at IS NOT NULL, last_attempt_at IS NOT NULL, error_message IS NOT NULL, meta_updated_at > meta_created_at)
		FROM email_outbox WHERE id = $1`
	long := strings.Repeat("l", 60) + "@" + strings.Repeat("example.", 20) + "org" // longer than its key once could be
	sent := insert(long, "hello")
	r.shows("SENT 0 t t f t", show, sent)

	mail.On(func(e servers.MailEvent) error {
		switch {
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "nobody"):
			return servers.MailAnswer(550, "no such user")
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "busy"):
			return servers.MailAnswer(451, "try again")
		}
		return nil
	})
	busy := insert("busy@example.org", "busy")
	wrong := insert("nobody@example.org", "wrong")
	r.shows("FAILED 1 f t t t", show, wrong)
	if got := r.ask("SELECT error_message FROM email_outbox WHERE id = $1", wrong); !strings.Contains(got, "no such user") {
		t.Errorf("error of the refused mail: %q", got)
	}
	r.shows("PENDING 4 f t t t", show, busy)
	other := insert("carol@example.org", "goes on")
	r.shows("SENT 0 t t f t", show, other)
	r.shows("FAILED 5 f t t t", show, busy)

	mail.On(nil)
	// The manual replay of its document.
	r.sql("UPDATE email_outbox SET recipient_email = 'somebody@example.org', status = 'PENDING', retry_count = 0, error_message = NULL WHERE id = $1 AND status = 'FAILED'", wrong)
	r.sql(`UPDATE email_outbox SET payload = payload || '{"subject": "mended"}', status = 'PENDING', retry_count = 0, error_message = NULL WHERE id = $1 AND status = 'FAILED'`, busy)
	for _, id := range []string{wrong, busy} {
		r.shows("SENT t f", "SELECT concat_ws(' ', status, sent_at IS NOT NULL, error_message IS NOT NULL) FROM email_outbox WHERE id = $1", id)
	}
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
	var got []string
	for _, m := range mail.Mails() {
		_, subject, _ := strings.Cut(string(m.Data), "\r\nSubject: ")
		subject, _, _ = strings.Cut(subject, "\r\n")
		got = append(got, m.To[0][:4]+" "+subject)
	}
	if len(got) != 4 || got[0] != "llll hello" || got[1] != "caro goes on" || !strings.Contains(strings.Join(got, ","), "some wrong") ||
		!strings.Contains(strings.Join(got, ","), "busy mended") {
		t.Errorf("mails: %q", got)
	}
}

// TestMemoPlacement: a placement for all tables adds to those of the shape, so that the sink finds the recipient under the name that it was
// given, and copies under the one that the shape gives.
func TestMemoPlacement(t *testing.T) {
	t.Parallel()
	mail := servers.StartMail(t, servers.MailOptions{})
	r := newRig(t, strings.Replace(memoConfig, `to: "header:to"}}`, `to: "header:recipient", bcc: "header:to"}}
router: {table.fields.additional.placement: "recipient_email:header:recipient"}`, 1))
	r.env["MAIL"] = mail.Addr()
	r.must("init")
	r.must("check")
	stop := r.relay()
	id := r.insert(`INSERT INTO email_outbox (memo_id, event_type, payload, recipient_email, notification_type)
		VALUES (gen_random_uuid(), 'memo.created', '{"subject": "s", "body": "b"}', 'ann@example.org', 'MEMO_CREATED') RETURNING id::text`)
	r.shows("SENT", "SELECT status FROM email_outbox WHERE id = $1", id)
	if got := stop(); got.code != exitDone {
		t.Errorf("run: %+v", got)
	}
}
