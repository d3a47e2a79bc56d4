package smtp_test

import (
	"bytes"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/smtp"
	"github.com/tailbox/tailbox/test/servers"
)

// sent delivers one mail and returns it.
func sent(t *testing.T, server *servers.MailServer, s *smtp.Sink, d *sink.Delivery) (servers.Mail, *mail.Message) {
	t.Helper()
	before := len(server.Mails())
	if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; err != nil {
		t.Fatal(err)
	}
	m := server.Mails()[before]
	return m, read(t, m.Data)
}

func TestLetter(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr(), EnvelopeFrom: "bounces@example.org"})
	d := delivery("0198a1b2", "g")
	subject := "Grüße aus dem Shop: " + strings.Repeat("sehr lange Zeile äöü ", 20)
	d.Value = fmt.Appendf(nil, `{"to": "\"Müller, Bob\" <bob@example.org>, carol@example.org", "cc": ["dave@example.org"], "reply_to": "help@example.org",
		"subject": %q, "text": "Hällo\n.\nleading dot\n", "html": "<p>Hällo</p>",
		"attachments": [{"filename": "Rechnung ü.pdf", "content_type": "application/pdf", "content": "JVBERi0="},
			{"content_type": "image/png", "content_id": "logo", "content": ""}]}`, subject)
	raw, m := sent(t, server, s, d)
	if raw.From != "bounces@example.org" || strings.Join(raw.To, " ") != "bob@example.org carol@example.org dave@example.org" {
		t.Errorf("envelope: from %s to %v", raw.From, raw.To)
	}
	word := new(mail.AddressParser)
	decoded, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || decoded != subject {
		t.Errorf("subject %q, %v", decoded, err)
	}
	list, err := word.ParseList(m.Header.Get("To"))
	if err != nil || len(list) != 2 || list[0].Name != "Müller, Bob" {
		t.Errorf("to %v, %v", list, err)
	}
	for name, want := range map[string]string{"From": `"Shop" <shop@example.org>`, "Cc": "<dave@example.org>", "Reply-To": "<help@example.org>",
		"Message-Id": "<0198a1b2@example.org>", "Mime-Version": "1.0", "X-Tailbox-Id": "0198a1b2", "X-Tailbox-Type": "Sent"} {
		if got := m.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	parts := leaves(t, m)
	if len(parts) != 4 {
		t.Fatalf("%d parts:\n%s", len(parts), raw.Data)
	}
	for i, want := range []leaf{
		{"text/plain; charset=utf-8", "", "", []byte("Hällo\r\n.\r\nleading dot\r\n")},
		{"text/html; charset=utf-8", "", "", []byte("<p>Hällo</p>")},
		{"application/pdf", "attachment; filename*=utf-8''Rechnung%20%C3%BC.pdf", "", []byte("%PDF-")},
		{"image/png", "inline", "<logo>", []byte{}},
	} {
		if got := parts[i]; got.kind != want.kind || got.disposition != want.disposition || got.id != want.id || !bytes.Equal(got.content, want.content) {
			t.Errorf("part %d: %+q, want %+q", i, got, want)
		}
	}
}

func withHeader(d *sink.Delivery, name, value string) *sink.Delivery {
	d.Message.Headers = append(d.Message.Headers, outbox.Header{Name: name, Value: []byte(value)})
	return d
}

// TestPicks takes the parts of a mail from where the configuration says.
func TestPicks(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	base := smtp.Config{Address: server.Addr()}
	message := func(payload string) *sink.Delivery {
		d := delivery("7", "g")
		d.Value, d.Key = []byte(payload), []byte("key@example.org")
		d.Message.Headers = []outbox.Header{{Name: "recipient", Value: []byte("header@example.org")}}
		return d
	}
	for name, test := range map[string]struct {
		change            func(*smtp.Config)
		d                 *sink.Delivery
		to, subject, text string
		html              bool
	}{
		"body":      {func(*smtp.Config) {}, message(`{"to": "a@example.org", "subject": "S", "body": "B"}`), "a@example.org", "S", "B", false},
		"header to": {func(c *smtp.Config) {}, withHeader(message(`{"subject": "S", "body": "B"}`), "to", "Bob <to@example.org>"), "to@example.org", "S", "B", false},
		"recipient": {func(c *smtp.Config) { c.To = pick(t, "header:recipient") }, message(`{"subject": "S", "body": "B"}`), "header@example.org", "S", "B", false},
		"key":       {func(c *smtp.Config) { c.To = pick(t, "message:key") }, message(`{"subject": "S", "text": "B"}`), "key@example.org", "S", "B", false},
		"nested": {func(c *smtp.Config) {
			c.To, c.Subject, c.Text = pick(t, "payload:config.to"), pick(t, "payload:config.subject"), pick(t, "payload:config.body")
		}, message(`{"config": {"to": ["a@example.org"], "subject": "S", "body": "B"}, "input": {}}`), "a@example.org", "S", "B", false},
		"alert": {func(c *smtp.Config) {
			c.To, c.Subject, c.Text = pick(t, "ops@example.org"), pick(t, "message:type"), pick(t, "payload:")
		}, message("not JSON"), "ops@example.org", "Sent", "not JSON", false},
		"html":      {func(c *smtp.Config) { c.HTML = pick(t, "payload:body") }, message(`{"to": "a@example.org", "body": "<p>B</p>"}`), "a@example.org", "", "<p>B</p>", true},
		"html only": {func(*smtp.Config) {}, message(`{"to": "a@example.org", "html": "<p>B</p>"}`), "a@example.org", "", "<p>B</p>", true},
	} {
		cfg := base
		test.change(&cfg)
		raw, m := sent(t, server, newSink(t, cfg), test.d)
		parts := leaves(t, m)
		last := parts[len(parts)-1]
		if strings.Join(raw.To, " ") != test.to || m.Header.Get("Subject") != test.subject || strings.TrimSuffix(string(last.content), "\r\n") != test.text ||
			strings.HasPrefix(last.kind, "text/html") != test.html {
			t.Errorf("%s: to %v, subject %q, %+q", name, raw.To, m.Header.Get("Subject"), parts)
		}
		// A bare number is no id beyond its table.
		if got := m.Header.Get("Message-Id"); got != "<shop=2Fpublic.mails=2F7@example.org>" {
			t.Errorf("%s: Message-ID %q", name, got)
		}
	}
}

// TestBadMails are permanent, and nothing of them is sent.
func TestBadMails(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{ASCII: true})
	s := newSink(t, smtp.Config{Address: server.Addr()})
	for payload, says := range map[string]string{
		``: "not JSON", `Hello`: "not JSON", `[1]`: "no JSON object", `null`: "no JSON object",
		`{"subject": "S", "text": "T"}`:                                                 "no recipient",
		`{"to": "", "text": "T"}`:                                                       "no recipient",
		`{"to": [], "text": "T"}`:                                                       "no recipient",
		`{"to": null, "text": "T"}`:                                                     "no recipient",
		`{"to": 5, "text": "T"}`:                                                        "want an address",
		`{"to": [5], "text": "T"}`:                                                      "want an address",
		`{"to": "nobody", "text": "T"}`:                                                 "to: ",
		`{"to": "a@b@c", "text": "T"}`:                                                  "to: ",
		`{"to": "a@example.org\r\nRCPT TO:<b@example.org>", "text": ""}`:                "control character",
		`{"to": "a@example.org", "cc": "x\n", "text": "T"}`:                             "cc: ",
		`{"to": "a@example.org", "subject": "S\r\nBcc: b@example.org", "text": "T"}`:    "subject: ",
		`{"to": "a@example.org", "subject": "S\nX: y", "text": "T"}`:                    "subject: ",
		`{"to": "a@example.org", "subject": 5, "text": "T"}`:                            "subject: ",
		`{"to": "a@example.org", "text": {"a": 1}}`:                                     "text: ",
		`{"to": "a@example.org", "subject": "S"}`:                                       "no text",
		`{"to": "a@example.org", "text": "T", "attachments": "x"}`:                      "attachments: ",
		`{"to": "a@example.org", "text": "T", "attachments": [{"content": "%"}]}`:       "base64",
		`{"to": "a@example.org", "text": "T", "attachments": [{"filename": "a\r\nb"}]}`: "character",
		`{"to": "a@example.org", "text": "T", "attachments": [{"content_type": "x"}]}`:  "content_type",
		`{"to": "ä@example.org", "text": "T"}`:                                          "SMTPUTF8",
	} {
		d := delivery("a", "a")
		d.Value = []byte(payload)
		err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]
		if class(err) != sink.ClassPermanent || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: %v: %v, want permanent, with %q", payload, class(err), err, says)
		}
	}
	if n := len(server.Mails()); n > 0 {
		t.Errorf("%d mails were sent", n)
	}
	utf8 := servers.StartMail(t, servers.MailOptions{})
	d := delivery("a", "a")
	d.Value = []byte(`{"to": "ä@example.org", "text": "T"}`)
	if raw, _ := sent(t, utf8, newSink(t, smtp.Config{Address: utf8.Addr()}), d); raw.To[0] != "ä@example.org" {
		t.Errorf("sent to %v", raw.To)
	}
}

// TestBadColumns: an error names the column that the configuration takes a part from.
func TestBadColumns(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr(), Subject: pick(t, "message:type"), To: pick(t, "message:key")})
	for want, change := range map[string]func(*sink.Delivery){
		"subject (message:type): ": func(d *sink.Delivery) { d.Message.Type = "a\r\nBcc: b@example.org" },
		"to (message:key): ":       func(d *sink.Delivery) { d.Key = []byte("nobody") },
	} {
		d := delivery("a", "a")
		d.Key, d.Value = []byte("key@example.org"), []byte(`{"text": "T"}`)
		change(d)
		if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]; class(err) != sink.ClassPermanent || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v: %v, want permanent, with %q", class(err), err, want)
		}
	}
}

// TestForward sends a mail that is the payload.
func TestForward(t *testing.T) {
	t.Parallel()
	server := servers.StartMail(t, servers.MailOptions{})
	s := newSink(t, smtp.Config{Address: server.Addr(), Raw: true, OmitMetadata: true})
	forward := func(text string) *sink.Delivery {
		d := delivery("f1", "g")
		d.Message.ContentType, d.Value = "message/rfc822", []byte(text)
		return d
	}
	whole := "From: a@example.org\r\nTo: b@example.org\r\nSubject: =?utf-8?q?=C3=A4?=\r\nDate: Mon, 02 Mar 2026 10:00:00 +0000\r\nMessage-ID: <own@example.org>\r\n" +
		"\r\n.dot\r\n\r\nBcc: not a header\r\nend"
	raw, _ := sent(t, server, s, forward(whole))
	if string(raw.Data) != whole+"\r\n" || raw.From != "shop@example.org" || strings.Join(raw.To, " ") != "b@example.org" {
		t.Errorf("from %s to %v:\n%q", raw.From, raw.To, raw.Data)
	}
	raw, m := sent(t, server, s, forward("To: b@example.org\nBCC: c@example.org,\n d@example.org\nCc: e@example.org\n\nHi"))
	if strings.Join(raw.To, " ") != "b@example.org e@example.org c@example.org d@example.org" || bytes.Contains(raw.Data, []byte("d@example")) ||
		m.Header.Get("Message-Id") != "<f1@example.org>" || m.Header.Get("From") == "" || m.Header.Get("Date") == "" {
		t.Errorf("to %v:\n%s", raw.To, raw.Data)
	}
	// Whom the configuration names for every mail gets this one, too, and nothing in it speaks for others.
	audited := newSink(t, smtp.Config{Address: server.Addr(), Raw: true, CC: pick(t, "ops@example.org"), BCC: pick(t, "audit@example.org")})
	raw, m = sent(t, server, audited, forward("To: b@example.org\nReturn-Path: <x@example.org>\nSender: x@example.org\nresent-from: x@example.org,\n x@example.org\n"+
		"X-Tailbox-Id: forged\nX-Tailbox-Tenant: forged\nSubject: kept\n\nHi"))
	if strings.Join(raw.To, " ") != "ops@example.org audit@example.org b@example.org" || bytes.Contains(raw.Data, []byte("x@example")) ||
		bytes.Contains(raw.Data, []byte("forged")) || m.Header.Get("Subject") != "kept" || m.Header.Get("X-Tailbox-Id") != "f1" {
		t.Errorf("to %v:\n%s", raw.To, raw.Data)
	}
	if err := sinktest.Call(t.Context(), t, newSink(t, smtp.Config{Address: server.Addr()}), []*sink.Delivery{forward(whole)})[0]; class(err) != sink.ClassPermanent ||
		!strings.Contains(err.Error(), "raw: true") {
		t.Errorf("without raw: %v: %v, want permanent", class(err), err)
	}
	for text, says := range map[string]string{
		"": "read the mail", "Hello": "read the mail", "Subject: x\n\nHi": "no recipient", "To: nobody\n\nHi": "header To", "To: a@example.org\n\na\rb": "carriage return",
		"To: a@example.org\n\n" + strings.Repeat("x", 2000): "998",
	} {
		err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{forward(text)})[0]
		if class(err) != sink.ClassPermanent || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%.40q: %v: %v, want permanent, with %q", text, class(err), err, says)
		}
	}
}
