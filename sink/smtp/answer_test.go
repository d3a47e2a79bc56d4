package smtp_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/smtp"
	"github.com/tailbox/tailbox/test/servers"
)

// answerTest is one answer of a server to one of five mails, and what becomes of them.
type answerTest struct {
	step  string
	fault error
	class sink.Class
	says  string
	// answers of the five: a1 a2(bad) a3 b1 b2
	answers string
	// came: who has a mail after the first call.
	came string
}

func answerTests() map[string]answerTest {
	return map[string]answerTest{
		"450 recipient":       {"rcpt", servers.MailAnswer(450, "4.2.1 greylisted"), sink.ClassRejected, "450 4.2.1 greylisted", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"451 content":         {"end", servers.MailAnswer(451, "4.3.0 try later"), sink.ClassRejected, "451", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"452 data":            {"data", servers.MailAnswer(452, "full"), sink.ClassRejected, "452", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"550 recipient":       {"rcpt", servers.MailAnswer(550, "5.1.1 no such user"), sink.ClassPermanent, "no such user", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"554 content":         {"end", servers.MailAnswer(554, "spam"), sink.ClassPermanent, "spam", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"552 too large":       {"end", servers.MailAnswer(552, "too large"), sink.ClassPermanent, "too large", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"421 recipient":       {"rcpt", servers.MailAnswer(421, "closing"), sink.ClassUnavailable, "421", "ok unavailable not_attempted not_attempted not_attempted", "a1"},
		"421 content":         {"end", servers.MailAnswer(421, "closing"), sink.ClassUnavailable, "421", "ok unavailable not_attempted not_attempted not_attempted", "a1"},
		"530":                 {"mail", servers.MailAnswer(530, "authenticate"), sink.ClassMisconfigured, "check auth", "ok misconfigured not_attempted not_attempted not_attempted", "a1"},
		"553 sender":          {"mail", servers.MailAnswer(553, "not yours"), sink.ClassMisconfigured, "check from", "ok misconfigured not_attempted not_attempted not_attempted", "a1"},
		"554 relay access":    {"rcpt", servers.MailAnswer(554, "5.7.1 <a2@example.org>: Relay access denied"), sink.ClassRejected, "does not relay", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"454 relay access":    {"rcpt", servers.MailAnswer(454, "4.7.1 <a2@example.org>: Relay access denied"), sink.ClassRejected, "does not relay", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"550 relaying":        {"rcpt", servers.MailAnswer(550, "5.7.1 a2... Relaying Denied."), sink.ClassRejected, "does not relay", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"550 unable to relay": {"rcpt", servers.MailAnswer(550, "5.7.54 SMTP; Unable to relay recipient in non-accepted domain"), sink.ClassRejected, "does not relay", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"550 not permitted":   {"rcpt", servers.MailAnswer(550, "you are not permitted to relay"), sink.ClassRejected, "does not relay", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"550 credentials":     {"data", servers.MailAnswer(550, "5.7.8 no"), sink.ClassMisconfigured, "does not take mails from this sender", "ok misconfigured not_attempted not_attempted not_attempted", "a1"},
		"550 not as sender":   {"end", servers.MailAnswer(550, "5.7.60 SMTP; Client does not have permissions to send as this sender"), sink.ClassMisconfigured, "does not take mails from this sender", "ok misconfigured not_attempted not_attempted not_attempted", "a1"},
		"554 SendAsDenied":    {"end", servers.MailAnswer(554, "5.2.252 SendAsDenied"), sink.ClassMisconfigured, "does not take mails from this sender", "ok misconfigured not_attempted not_attempted not_attempted", "a1"},
		"550 daily quota":     {"rcpt", servers.MailAnswer(550, "5.4.5 Daily user sending quota exceeded"), sink.ClassThrottled, "sender's limit", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"550 limit":           {"data", servers.MailAnswer(550, "5.4.5 try tomorrow"), sink.ClassThrottled, "sender's limit", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"554 message quota":   {"end", servers.MailAnswer(554, "5.7.1 Daily message quota exceeded"), sink.ClassThrottled, "sender's limit", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"550 sending limit":   {"end", servers.MailAnswer(550, "your account has reached its Sending Limit"), sink.ClassThrottled, "sender's limit", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"550 daily limit":     {"rcpt", servers.MailAnswer(550, "5.1.90 You have reached your daily limit for message recipients"), sink.ClassThrottled, "sender's limit", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"454 rate":            {"data", servers.MailAnswer(454, "Throttling failure: Maximum sending rate exceeded."), sink.ClassThrottled, "more slowly", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"450 too much mail":   {"rcpt", servers.MailAnswer(450, "4.7.1 Error: too much mail from 192.0.2.1"), sink.ClassThrottled, "more slowly", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"421 rate":            {"mail", servers.MailAnswer(421, "4.7.28 Our system has detected an unusual rate: rate limit exceeded"), sink.ClassThrottled, "more slowly", "ok throttled not_attempted not_attempted not_attempted", "a1"},
		"450 one mailbox":     {"rcpt", servers.MailAnswer(450, "4.2.1 the user gets mail above the rate limit"), sink.ClassRejected, "4.2.1", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"450 in an address":   {"rcpt", servers.MailAnswer(450, `4.7.1 <"rate limit"@example.org> greylisted, "rate limit"@example.org`), sink.ClassRejected, "greylisted", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"552 mailbox full":    {"rcpt", servers.MailAnswer(552, "5.2.2 mailbox full: over quota"), sink.ClassPermanent, "5.2.2 mailbox full: over quota", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"550 over quota":      {"rcpt", servers.MailAnswer(550, "5.2.2 over quota: the sender may try later"), sink.ClassPermanent, "5.2.2 over quota: the sender may try later", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"550 mailbox quota":   {"rcpt", servers.MailAnswer(550, "mailbox quota exceeded, sending refused"), sink.ClassPermanent, "mailbox quota exceeded, sending refused", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"550 user quota":      {"rcpt", servers.MailAnswer(550, "user is over quota"), sink.ClassPermanent, "user is over quota", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"550 quota, returned": {"rcpt", servers.MailAnswer(550, "quota exceeded, returned to sender"), sink.ClassPermanent, "returned", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"454 relay, sender":   {"mail", servers.MailAnswer(454, "4.7.1 Relay access denied"), sink.ClassMisconfigured, "does not take", "ok misconfigured not_attempted not_attempted not_attempted", "a1"},
		"550 policy":          {"rcpt", servers.MailAnswer(550, "5.7.1 rejected by policy"), sink.ClassPermanent, "5.7.1 rejected by policy", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"451 sender":          {"mail", servers.MailAnswer(451, "later"), sink.ClassUnavailable, "later", "ok unavailable not_attempted not_attempted not_attempted", "a1"},
		"452 system":          {"mail", servers.MailAnswer(452, "4.3.1 Insufficient system storage"), sink.ClassUnavailable, "4.3.1", "ok unavailable not_attempted not_attempted not_attempted", "a1"},
		"451 lookup":          {"rcpt", servers.MailAnswer(451, "4.3.0 <a2@example.org>: Temporary lookup failure"), sink.ClassUnavailable, "lookup", "ok unavailable not_attempted not_attempted not_attempted", "a1"},
		"dropped at sender":   {"mail", servers.ErrMailDrop, sink.ClassUnreachable, "not accepted", "ok unreachable not_attempted not_attempted not_attempted", "a1"},
		"dropped at rcpt":     {"rcpt", servers.ErrMailDrop, sink.ClassUnreachable, "not accepted", "ok unreachable not_attempted not_attempted not_attempted", "a1"},
		"dropped at the end":  {"end", servers.ErrMailDrop, sink.ClassUnavailable, "possible duplicate", "ok unavailable not_attempted not_attempted not_attempted", "a1"},
		"kept and dropped":    {"end", servers.ErrMailKeepAndDrop, sink.ClassUnavailable, "possible duplicate", "ok unavailable not_attempted not_attempted not_attempted", "a1 a2"},
	}
}

// aboutUs are refusals of the sender, the machine or the account, which servers give to a recipient or to a whole mail: no mail is to blame.
func aboutUs() map[string]answerTest {
	all := map[string]answerTest{
		"553 not owned":         {step: "rcpt", fault: servers.MailAnswer(553, "5.7.1 <shop@example.org>: Sender address rejected: not owned by user shop"), says: "this sender"},
		"550 no such sender":    {step: "rcpt", fault: servers.MailAnswer(550, "5.1.0 <shop@example.org>: Sender address rejected: User unknown"), says: "this sender"},
		"504 helo":              {step: "rcpt", fault: servers.MailAnswer(504, "5.5.2 <7f3c9d2a1b>: Helo command rejected: need fully-qualified hostname"), says: "and helo"},
		"554 client":            {step: "rcpt", fault: servers.MailAnswer(554, "5.7.1 <unknown[192.0.2.7]>: Client host rejected: Access denied"), says: "this sender"},
		"554 blocklist":         {step: "rcpt", fault: servers.MailAnswer(554, "5.7.1 Service unavailable; Client host [192.0.2.7] blocked using bl.example.net"), says: "this sender"},
		"554 sender blocklist":  {step: "rcpt", fault: servers.MailAnswer(554, "5.7.1 Service unavailable; Sender address [shop@example.org] blocked using bl.example.net"), says: "this sender"},
		"554 SES identity":      {step: "end", fault: servers.MailAnswer(554, "Message rejected: Email address is not verified. The following identities failed the check in region EU-WEST-1: shop@example.org"), says: "account"},
		"554 SES paused":        {step: "end", fault: servers.MailAnswer(554, "Message rejected: Sending paused for this account. For more information, please check the inbox"), says: "account"},
		"554 SES permission":    {step: "end", fault: servers.MailAnswer(554, "Access denied: User `arn:aws:iam::1:user/x' is not authorized to perform `ses:SendRawEmail' on resource `y'"), says: "account"},
		"550 SendGrid identity": {step: "end", fault: servers.MailAnswer(550, "The from address does not match a verified Sender Identity."), says: "this sender"},
		"550 tenant":            {step: "end", fault: servers.MailAnswer(550, "5.7.705 Access denied, tenant has exceeded threshold"), says: "this sender"},
		"554 own mailbox full":  {step: "end", fault: servers.MailAnswer(554, "5.2.2 mailbox full; STOREDRV.Submission.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded"), says: "own mailbox"},
	}
	for _, code := range []string{"5.1.7", "5.1.8", "5.7.23", "5.7.25", "5.7.26", "5.7.27"} {
		all["550 "+code] = answerTest{step: "end", fault: servers.MailAnswer(550, code+" no"), says: "this sender"}
	}
	for name, test := range all {
		test.class, test.answers, test.came = sink.ClassMisconfigured, "ok misconfigured not_attempted not_attempted not_attempted", "a1"
		all[name] = test
	}
	// For now: it is the server that has to change.
	all["450 client, for now"] = answerTest{"rcpt", servers.MailAnswer(450, "4.7.25 Client host rejected: cannot find your hostname, [192.0.2.7]"), sink.ClassUnavailable, "your hostname",
		"ok unavailable not_attempted not_attempted not_attempted", "a1"}
	return all
}

// limited are Exchange's limits of the sender, and of connections, and what looks like one of these and is about a recipient.
func limited() map[string]answerTest {
	throttled := "ok throttled not_attempted not_attempted not_attempted"
	return map[string]answerTest{
		"554 submission quota": {"end", servers.MailAnswer(554, "5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; Failed to process message"), sink.ClassThrottled, "sender's limit", throttled, "a1"},
		"432 connections":      {"mail", servers.MailAnswer(432, "4.3.2 Concurrent connections limit exceeded."), sink.ClassThrottled, "more slowly", throttled, "a1"},
		"432 threads":          {"end", servers.MailAnswer(432, "4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded"), sink.ClassThrottled, "more slowly", throttled, "a1"},
		"421 submission rate":  {"mail", servers.MailAnswer(421, "4.4.2 Message submission rate for this client has exceeded the configured limit"), sink.ClassThrottled, "more slowly", throttled, "a1"},
		"450 grey, for client": {"rcpt", servers.MailAnswer(450, "4.7.1 Client host rejected: Greylisted, try again"), sink.ClassRejected, "Greylisted", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"452 system at end":    {"end", servers.MailAnswer(452, "4.3.1 Insufficient system resources"), sink.ClassRejected, "4.3.1", "ok rejected not_attempted ok ok", "a1 b1 b2"},
		"550 in an address":    {"rcpt", servers.MailAnswer(550, `5.1.1 <"Sender address rejected: daily limit"@example.org>: no such user`), sink.ClassPermanent, "no such user", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"550 in brackets":      {"rcpt", servers.MailAnswer(550, `5.1.1 <"x> Client host rejected: relay access denied, daily limit"@example.org>: no such user`), sink.ClassPermanent, "no such user", "ok permanent not_attempted ok ok", "a1 b1 b2"},
		"550 cut off":          {"rcpt", servers.MailAnswer(550, `5.1.1 no such user: "x> Client host rejected: relay access de`), sink.ClassPermanent, "no such user", "ok permanent not_attempted ok ok", "a1 b1 b2"},
	}
}

// TestAnswers answers one mail of five with an error, at each step: the class is right, its group waits behind it, the
// others go on as far as the connection does, and in the end each mail has come once.
func TestAnswers(t *testing.T) {
	t.Parallel()
	all := answerTests()
	maps.Copy(all, aboutUs())
	maps.Copy(all, limited())
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.StartMail(t, servers.MailOptions{})
			s := newSink(t, smtp.Config{Address: server.Addr()})
			// MAIL does not name the recipient: the faulty mail is the second.
			var count atomic.Int64
			server.On(func(e servers.MailEvent) error {
				if e.Step == "mail" {
					count.Add(1)
				}
				if e.Step == test.step && count.Load() == 2 {
					return test.fault
				}
				return nil
			})
			ds := []*sink.Delivery{delivery("a1", "a"), delivery("a2", "a"), delivery("a3", "a"), delivery("b1", "b"), delivery("b2", "b")}
			answers := sinktest.Call(t.Context(), t, s, ds)
			var got []string
			for _, err := range answers {
				if err == nil {
					got = append(got, "ok")
				} else {
					got = append(got, class(err).String())
				}
			}
			if text := strings.Join(got, " "); text != test.answers || !strings.Contains(answers[1].Error(), test.says) {
				t.Errorf("answers %q, want %q; the second is %v, want %q", text, test.answers, answers[1], test.says)
			}
			if came := to(server.Mails()); came != test.came {
				t.Errorf("mails came to %q, want %q", came, test.came)
			}
			server.On(nil)
			// The relay sends what was not delivered again, and nothing else.
			var rest []*sink.Delivery
			for i, err := range answers {
				if err != nil {
					rest = append(rest, ds[i])
				}
			}
			for _, err := range sinktest.Send(t.Context(), t, s, rest) {
				t.Error(err)
			}
			times := map[string]int{}
			for _, m := range server.Mails() {
				times[m.To[0]]++
			}
			for _, d := range ds {
				want := 1
				if d == ds[1] && errors.Is(test.fault, servers.ErrMailKeepAndDrop) {
					want = 2 // Nobody could know.
				}
				if n := times[d.Message.ID+"@example.org"]; n != want {
					t.Errorf("%s came %d times, want %d", d.Message.ID, n, want)
				}
			}
		})
	}
}

// TestDuplicateLooksAlike: a mail that is sent again has the same Message-ID and Date.
func TestDuplicateLooksAlike(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr()})
	server.On(func(e servers.MailEvent) error {
		if e.Step == "end" {
			return servers.ErrMailKeepAndDrop
		}
		return nil
	})
	d := delivery("a1", "a")
	if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; class(err) != sink.ClassUnavailable {
		t.Fatal(err)
	}
	server.On(nil)
	d.Attempt++
	if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; err != nil {
		t.Fatal(err)
	}
	mails := server.Mails()
	first, second := string(mails[0].Data), strings.Replace(string(mails[1].Data), "Attempt: 2", "Attempt: 1", 1)
	if first != second || !strings.Contains(first, "Message-ID: <a1@example.org>") || !strings.Contains(first, "Date: Sun, 01 Mar 2026 12:00:00 +0000") {
		t.Errorf("first:\n%s\nsecond:\n%s", first, second)
	}
}

// TestReuse sends many mails over few connections, and ends those that have carried enough.
func TestReuse(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr(), MaxPerConnection: 30})
	var ds []*sink.Delivery
	for i := range 100 {
		ds = append(ds, delivery(fmt.Sprintf("n%d", i), "g"))
	}
	for _, err := range sinktest.Send(t.Context(), t, s, ds) {
		t.Error(err)
	}
	perConnection := map[int]int{}
	for _, m := range server.Mails() {
		perConnection[m.Conn]++
	}
	if len(server.Mails()) != 100 || len(perConnection) != 4 || perConnection[1] != 30 || perConnection[4] != 10 {
		t.Errorf("mails by connection: %v, want 30, 30, 30, 10", perConnection)
	}
}

// TestIdleConnections: the server ends connections that were idle; the next mail costs no attempt.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr()})
	for i := range 5 {
		if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery(fmt.Sprint("n", i), "g")})[0]; err != nil {
			t.Fatal(err)
		}
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(server.Mails()); n != 5 || server.Connections() != 5 {
		t.Errorf("%d mails over %d connections, want 5 over 5", n, server.Connections())
	}
}

// TestSlow: a server that takes its time with the answer is waited for up to the timeout, which is an unknown outcome.
func TestSlow(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	release := make(chan struct{})
	defer sync.OnceFunc(func() { close(release) })()
	for step, want := range map[string]sink.Class{"mail": sink.ClassUnreachable, "rcpt": sink.ClassUnreachable, "end": sink.ClassUnavailable} {
		s := newSink(t, smtp.Config{Address: server.Addr(), Timeout: 200 * time.Millisecond})
		server.On(func(e servers.MailEvent) error {
			if e.Step == step {
				<-release
			}
			return nil
		})
		if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery("n", "g")})[0]; class(err) != want {
			t.Errorf("slow at %s: %v: %v, want %v", step, class(err), err, want)
		}
		// A context that ends says that nothing was tried, but for a mail whose answer is missing.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		s = newSink(t, smtp.Config{Address: server.Addr()})
		if want == sink.ClassUnreachable {
			want = sink.ClassNotAttempted
		}
		if err := sinktest.Call(ctx, t, s, []*sink.Delivery{delivery("n", "g")})[0]; class(err) != want {
			t.Errorf("ended at %s: %v: %v, want %v", step, class(err), err, want)
		}
		cancel()
	}
}

// TestRecipients: a mail goes to all of its recipients or to none.
func TestRecipients(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr()})
	d := delivery("x", "g")
	d.Value = []byte(`{"to": ["a@example.org", "B <b@example.org>, a@example.org"], "cc": "c@example.org", "bcc": ["hidden@example.org"], "text": "Hi"}`)
	server.On(func(e servers.MailEvent) error {
		if e.Arg == "c@example.org" {
			return servers.MailAnswer(550, "no such user")
		}
		return nil
	})
	if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; class(err) != sink.ClassPermanent || !strings.Contains(err.Error(), "recipient 3 of 4") {
		t.Errorf("%v", err)
	}
	if mails := server.Mails(); len(mails) > 0 {
		t.Errorf("sent to %s", to(mails))
	}
	server.On(nil)
	d.Receipt = new(sink.Receipt)
	if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; err != nil {
		t.Fatal(err)
	}
	if got := to(server.Mails()); got != "a b c hidden" || strings.Contains(string(server.Mails()[0].Data), "hidden") {
		t.Errorf("sent to %s:\n%s", got, server.Mails()[0].Data)
	}
	if got := d.Receipt.Text(); !strings.HasPrefix(got, "250 ") || len(got) < 6 {
		t.Errorf("receipt %q", got)
	}
}

// TestFixed: what the configuration says of every mail, and the server does not take, waits for the operator: no mail is to blame. What a mail
// brings is that mail's fault.
func TestFixed(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{ASCII: true})
	server.On(func(e servers.MailEvent) error {
		switch {
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "gone"):
			return servers.MailAnswer(550, "5.1.1 no such user")
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "full"):
			return servers.MailAnswer(552, "5.2.2 mailbox full")
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "far"):
			return servers.MailAnswer(554, "5.7.1 Relay access denied")
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "soon"):
			return servers.MailAnswer(454, "4.7.1 Relay access denied")
		case e.Step == "rcpt" && strings.HasPrefix(e.Arg, "grey"):
			return servers.MailAnswer(450, "4.2.1 greylisted")
		}
		return nil
	})
	for name, test := range map[string]struct {
		change func(*smtp.Config)
		to     string
		class  sink.Class
		says   string
		check  bool // finds it too
	}{
		"from":             {func(c *smtp.Config) { c.From = "ü@example.org" }, "a", sink.ClassMisconfigured, "from or envelope_from", true},
		"envelope_from":    {func(c *smtp.Config) { c.EnvelopeFrom = "ü@example.org" }, "a", sink.ClassMisconfigured, "from or envelope_from", true},
		"to":               {func(c *smtp.Config) { c.To = pick(t, "ü@example.org") }, "a", sink.ClassMisconfigured, "such as that of to", true},
		"bcc":              {func(c *smtp.Config) { c.BCC = pick(t, "b@example.org, ü@example.org") }, "a", sink.ClassMisconfigured, "such as that of bcc", true},
		"bcc, and a mail":  {func(c *smtp.Config) { c.BCC = pick(t, "ü@example.org") }, "ü", sink.ClassMisconfigured, "such as that of bcc", true},
		"a mail":           {func(c *smtp.Config) { c.BCC = pick(t, "b@example.org") }, "ü", sink.ClassPermanent, "SMTPUTF8", false},
		"gone cc":          {func(c *smtp.Config) { c.CC = pick(t, "gone@example.org") }, "a", sink.ClassMisconfigured, "recipient 2 of 2 (the sink's cc)", false},
		"gone cc and to":   {func(c *smtp.Config) { c.CC = pick(t, "gone@example.org") }, "gone", sink.ClassMisconfigured, "recipient 1 of 1 (the sink's cc)", false},
		"full to":          {func(c *smtp.Config) { c.To = pick(t, "full@example.org") }, "a", sink.ClassMisconfigured, "correct it", false},
		"far bcc":          {func(c *smtp.Config) { c.BCC = pick(t, "far@example.org") }, "a", sink.ClassMisconfigured, "Relay access", false},
		"far bcc, for now": {func(c *smtp.Config) { c.BCC = pick(t, "soon@example.org") }, "a", sink.ClassMisconfigured, "Relay access", false},
		"greylisted cc":    {func(c *smtp.Config) { c.CC = pick(t, "grey@example.org") }, "a", sink.ClassRejected, "greylisted", false},
		"gone in a mail":   {func(c *smtp.Config) { c.CC = pick(t, "b@example.org") }, "gone", sink.ClassPermanent, "recipient 1 of 2", false},
		"a header's, gone": {func(c *smtp.Config) { c.CC = pick(t, "message:correlation_id") }, "a", sink.ClassPermanent, "recipient 2 of 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := smtp.Config{Address: server.Addr()}
			test.change(&cfg)
			s := newSink(t, cfg)
			d := delivery(test.to, "g")
			d.Message.CorrelationID = "gone@example.org"
			if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; class(err) != test.class || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v: %v, want %v with %q", class(err), err, test.class, test.says)
			}
			if problems := s.Check(t.Context()); len(problems) > 0 != test.check {
				t.Errorf("check: %v", problems)
			}
		})
	}
	// A whole mail goes to its own recipients, and to the configuration's.
	for _, test := range []struct {
		to, cc string
		want   sink.Class
	}{{"gone@example.org", "ops@example.org", sink.ClassPermanent}, {"ok@example.org", "gone@example.org", sink.ClassMisconfigured}} {
		s := newSink(t, smtp.Config{Address: server.Addr(), CC: pick(t, test.cc), Raw: true})
		d := delivery("a", "g")
		d.Message.ContentType, d.Value = "message/rfc822", []byte("To: "+test.to+"\n\nHi\n")
		if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; class(err) != test.want {
			t.Errorf("a whole mail to %s and %s: %v: %v, want %v", test.to, test.cc, class(err), err, test.want)
		}
	}
}

// TestGreeting: a server that has no place for one more connection is busy; one that does not serve the relay waits for the
// operator; one that is not there is unreachable.
func TestGreeting(t *testing.T) {
	t.Parallel()
	for greeting, want := range map[string]sink.Class{
		"421 too many connections\r\n": sink.ClassUnavailable, "421 4.7.0 Error: too many connections from 192.0.2.1\r\n": sink.ClassThrottled,
		"421 Too many concurrent SMTP connections\r\n": sink.ClassThrottled, "432 4.3.2 Concurrent connections limit exceeded.\r\n": sink.ClassThrottled, "450 later\r\n": sink.ClassUnavailable, "554 no\r\n": sink.ClassMisconfigured,
		"": sink.ClassUnreachable, "what?\r\n": sink.ClassUnreachable,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(greeting)) // The client sees it.
				_ = c.Close()
			}
		}()
		s := newSink(t, smtp.Config{Address: l.Addr().String()})
		ds := []*sink.Delivery{delivery("a", "a"), delivery("b", "b")}
		answers := sinktest.Call(t.Context(), t, s, ds)
		if class(answers[0]) != want || class(answers[1]) != sink.ClassNotAttempted {
			t.Errorf("%q: %v, want %v", greeting, answers, want)
		}
		if problems := s.Check(t.Context()); len(problems) != 1 {
			t.Errorf("%q: check: %v", greeting, problems)
		}
	}
}
