package smtp_test

import (
	"context"
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

const endTimeout = time.Second

// slowEnd is a server that answers whole mails only when it is told to.
type slowEnd struct {
	*servers.MailServer
	answer chan error // to the next mail
}

func newSlowEnd(t *testing.T) (*slowEnd, *smtp.Sink) {
	t.Helper()
	server := &slowEnd{servers.StartMail(t, servers.MailOptions{}), make(chan error)}
	over := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(over) }))
	server.On(func(e servers.MailEvent) error {
		if e.Step != "end" {
			return nil
		}
		select {
		case err := <-server.answer:
			return err
		case <-over:
			return servers.ErrMailDrop
		}
	})
	return server, newSink(t, smtp.Config{Address: server.Addr(), Timeout: endTimeout})
}

// try is one attempt of a mail.
func try(t *testing.T, s *smtp.Sink, d *sink.Delivery) error {
	t.Helper()
	err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]
	d.Attempt++
	return err
}

// unanswered sends a mail that gets no answer in time.
func unanswered(t *testing.T, s *smtp.Sink, d *sink.Delivery) {
	t.Helper()
	if err := try(t, s, d); class(err) != sink.ClassUnavailable || !strings.Contains(err.Error(), "no answer to the mail") {
		t.Fatalf("%v: %v, want no answer", class(err), err)
	}
}

// TestSlowEnd: a server may take its time with the answer to a whole mail. The call ends, and the mail is not sent again: its next attempt gets
// the answer, which may have come meanwhile or not.
func TestSlowEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		between bool // the answer comes between the attempts
		answer  error
		want    string
		mails   int
	}{
		"accepted within an attempt":   {want: "ok", mails: 1},
		"accepted between attempts":    {between: true, want: "ok", mails: 1},
		"refused within an attempt":    {answer: servers.MailAnswer(554, "spam"), want: "permanent"},
		"refused between the attempts": {between: true, answer: servers.MailAnswer(554, "spam"), want: "permanent"},
		"put off":                      {between: true, answer: servers.MailAnswer(451, "later"), want: "rejected"},
		"closed within an attempt":     {answer: servers.ErrMailDrop, want: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := newSlowEnd(t)
			d := delivery("n", "g")
			d.Receipt = new(sink.Receipt)
			unanswered(t, s, d)
			unanswered(t, s, d)
			taken := func() bool { return s.EndingsWaiting() == 0 }
			ended := make(chan error, 1)
			if test.between {
				server.answer <- test.answer
				sinktest.Eventually(t, "the answer to arrive", taken)
				ended <- try(t, s, d)
			} else {
				go func() { ended <- try(t, s, d) }()
				sinktest.Eventually(t, "an attempt that waits", taken)
				server.answer <- test.answer
			}
			got, err := "ok", <-ended
			if err != nil {
				got = class(err).String()
			}
			if accepted := strings.HasPrefix(d.Receipt.Text(), "250 "); got != test.want || accepted != (got == "ok") {
				t.Errorf("%s: %v, want %s; receipt %q", got, err, test.want, d.Receipt.Text())
			}
			if n := len(server.Mails()); n != test.mails || server.Connections() != 1 {
				t.Errorf("%d mails over %d connections, want %d over one", n, server.Connections(), test.mails)
			}
			server.On(nil)
			if err := try(t, s, delivery("next", "g")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSlowEndGivenUp: if the connection ends without an answer, or the server takes longer than the protocol lets it, the mail is sent again.
func TestSlowEndGivenUp(t *testing.T) {
	t.Parallel()
	for name, dropped := range map[string]bool{"dropped": true, "too long": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := newSlowEnd(t)
			if !dropped {
				s.SetLongestEnd(2 * endTimeout)
			}
			d := delivery("n", "g")
			unanswered(t, s, d)
			if dropped {
				server.answer <- servers.ErrMailKeepAndDrop
			}
			sinktest.Eventually(t, "the end of the wait", func() bool { return s.EndingsWaiting() == 0 })
			server.On(nil)
			if err := try(t, s, d); err != nil || server.Connections() != 2 {
				t.Errorf("%v, %d connections", err, server.Connections())
			}
		})
	}
}

// TestSlowEndIsOfOneMail: an answer belongs to its mail. Another one, and one with the same id and another content, are sent.
func TestSlowEndIsOfOneMail(t *testing.T) {
	t.Parallel()
	server, s := newSlowEnd(t)
	d := delivery("n", "g")
	unanswered(t, s, d)
	server.On(nil)
	edited := delivery("n", "g")
	edited.Value = []byte(`{"to": "n@example.org", "subject": "Corrected", "text": "Hi"}`)
	for _, other := range []*sink.Delivery{delivery("other", "h"), edited} {
		if err := try(t, s, other); err != nil {
			t.Error(err)
		}
	}
	server.answer <- nil
	if err := try(t, s, d); err != nil {
		t.Error(err)
	}
	if got := to(server.Mails()); got != "other n n" {
		t.Errorf("mails came to %q", got)
	}
}

// TestSlowEndBounds: at most as many connections as the sink has calls wait for answers that no call waits for.
func TestSlowEndBounds(t *testing.T) {
	t.Parallel()
	server, s := newSlowEnd(t)
	most := s.Limits().Concurrency
	for i := range most + 2 {
		unanswered(t, s, delivery(string(rune('a'+i)), "g"))
		if n := s.EndingsWaiting(); n > most {
			t.Errorf("%d connections wait, want at most %d", n, most)
		}
	}
	if n := s.EndingsWaiting(); n != most || server.Connections() != most+2 {
		t.Errorf("%d of %d connections wait, want %d", n, server.Connections(), most)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	sinktest.Eventually(t, "the connections to end", func() bool { return s.EndingsWaiting() == 0 })
}

// TestPatience: if a server is slow with every mail, a call waits twice as long as the last answer took. After a quick answer it waits for the
// timeout again.
func TestPatience(t *testing.T) {
	t.Parallel()
	server, s := newSlowEnd(t)
	s.SetTook(time.Minute)
	timer := time.AfterFunc(2*endTimeout, func() {
		select {
		case server.answer <- nil:
		case <-t.Context().Done():
		}
	})
	defer timer.Stop()
	if err := try(t, s, delivery("first", "g")); err != nil {
		t.Errorf("slow: %v", err)
	}
	s.SetTook(0)
	unanswered(t, s, delivery("second", "g"))
	if got := to(server.Mails()); got != "first" {
		t.Errorf("mails came to %q", got)
	}
}

// TestSlowEndIsCut: the end of the context cuts the wait for an answer that the mail's last attempt has not got.
func TestSlowEndIsCut(t *testing.T) {
	t.Parallel()
	_, s := newSlowEnd(t)
	d := delivery("n", "g")
	unanswered(t, s, d)
	ctx, cancel := context.WithTimeout(t.Context(), endTimeout/4)
	defer cancel()
	if err := sinktest.Call(ctx, t, s, []*sink.Delivery{d})[0]; class(err) != sink.ClassUnavailable || !strings.Contains(err.Error(), "possible duplicate") {
		t.Errorf("%v: %v, want a possible duplicate", class(err), err)
	}
	if n := s.EndingsWaiting(); n != 0 {
		t.Errorf("%d connections wait", n)
	}
}

// TestInternational: a mail is declared international only if an address is.
func TestInternational(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	for name, test := range map[string]struct {
		from, to string
		want     bool
	}{"ascii": {"", "bob", false}, "recipient": {"", "ü", true}, "sender": {"ü@example.org", "eve", true}} {
		s := newSink(t, smtp.Config{Address: server.Addr(), From: test.from})
		var asked atomic.Bool
		server.On(func(e servers.MailEvent) error {
			if e.Step == "mail" {
				asked.Store(e.Mail.UTF8)
			}
			return nil
		})
		if err := try(t, s, delivery(test.to, "g")); err != nil || asked.Load() != test.want {
			t.Errorf("%s: SMTPUTF8 %v, want %v; %v", name, asked.Load(), test.want, err)
		}
		asked.Store(name != "sender")
		if problems := s.Check(t.Context()); len(problems) > 0 || asked.Load() != (name == "sender") {
			t.Errorf("%s: check: SMTPUTF8 %v, %v", name, asked.Load(), problems)
		}
	}
}
