package smtp_test

import (
	"crypto/hmac"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/xdg-go/scram"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/smtp"
	"github.com/tailbox/tailbox/test/servers"
)

// mechanism makes the servers of mechanisms that the library does not have.
func mechanism(t testing.TB) func(string) sasl.Server {
	return func(name string) sasl.Server {
		if name == "CRAM-MD5" {
			return &cram{}
		}
		generator := scram.SHA256
		if name == "SCRAM-SHA-1" {
			generator = scram.SHA1
		}
		client, err := generator.NewClient(servers.MailUsername, servers.MailPassword, "")
		if err != nil {
			t.Error(err)
			return nil
		}
		stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt salt salt", Iters: 4096})
		if err != nil {
			t.Error(err)
			return nil
		}
		server, err := generator.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
		if err != nil {
			t.Error(err)
			return nil
		}
		return &scramServer{conversation: server.NewConversation()}
	}
}

type cram struct{ asked bool }

const challenge = "<1896.697170952@localhost>"

func (c *cram) Next(answer []byte) ([]byte, bool, error) {
	if !c.asked {
		c.asked = true
		return []byte(challenge), false, nil
	}
	mac := hmac.New(md5.New, []byte(servers.MailPassword))
	mac.Write([]byte(challenge))
	if string(answer) != servers.MailUsername+" "+hex.EncodeToString(mac.Sum(nil)) {
		return nil, true, servers.MailAnswer(535, "wrong")
	}
	return nil, true, nil
}

type scramServer struct{ conversation *scram.ServerConversation }

func (s *scramServer) Next(answer []byte) ([]byte, bool, error) {
	if answer == nil {
		return []byte{}, false, nil // the client begins
	}
	if s.conversation.Done() {
		if s.conversation.Valid() {
			return nil, true, nil
		}
		return nil, true, servers.MailAnswer(535, "wrong")
	}
	text, err := s.conversation.Step(string(answer))
	if err != nil {
		return nil, true, servers.MailAnswer(535, "wrong")
	}
	return []byte(text), false, nil
}

// TestLogin logs in by each mechanism, with the right password and a wrong one, with TLS of each kind and without.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, security := range []smtp.Security{smtp.None, smtp.StartTLS, smtp.ImplicitTLS, smtp.Opportunistic} {
		for wire, name := range map[string]string{"PLAIN": "plain", "LOGIN": "login", "CRAM-MD5": "cram-md5", "SCRAM-SHA-1": "scram-sha-1",
			"SCRAM-SHA-256": "scram-sha-256", "PLAIN LOGIN": "auto", "PLAIN CRAM-MD5": "auto", "LOGIN SCRAM-SHA-256": "auto"} {
			t.Run(fmt.Sprint(security, " ", wire), func(t *testing.T) {
				t.Parallel()
				server := servers.StartMail(t, servers.MailOptions{StartTLS: security == smtp.StartTLS || security == smtp.Opportunistic,
					ImplicitTLS: security == smtp.ImplicitTLS, Mechanisms: strings.Fields(wire), Mechanism: mechanism(t)})
				cfg := smtp.Config{Address: server.Addr(), Security: security,
					Auth: &smtp.Auth{Mechanism: name, Username: servers.MailUsername, Password: servers.MailPassword}}
				if security != smtp.None {
					cfg.TLS = &sink.TLS{CA: server.Certificates.CA}
				}
				s := newSink(t, cfg)
				if problems := s.Check(t.Context()); len(problems) > 0 {
					t.Fatal(problems)
				}
				if err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery("a", "a")})[0]; err != nil {
					t.Fatal(err)
				}
				if m := server.Mails()[0]; m.Username != servers.MailUsername || m.TLS != (security != smtp.None) {
					t.Errorf("sent by %q, TLS %v", m.Username, m.TLS)
				}
				wrong := *cfg.Auth
				wrong.Password = "wrong secret"
				cfg.Auth = &wrong
				s = newSink(t, cfg)
				err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery("a", "a")})[0]
				if class(err) != sink.ClassMisconfigured || !strings.Contains(err.Error(), "AUTH") {
					t.Errorf("a wrong password: %v: %v", class(err), err)
				}
				for _, err := range append(s.Check(t.Context()), err) {
					if strings.Contains(err.Error(), "secret") {
						t.Errorf("an error tells the password: %v", err)
					}
				}
			})
		}
	}
}

// TestProtection: no mail, and no password, goes over a connection that is not protected as configured.
func TestProtection(t *testing.T) {
	t.Parallel()
	plain := servers.StartMail(t, servers.MailOptions{})
	starttls := servers.StartMail(t, servers.MailOptions{StartTLS: true})
	login := servers.StartMail(t, servers.MailOptions{Mechanisms: []string{"PLAIN"}})
	// Loopback by a name that does not tell, as a server elsewhere.
	elsewhere := strings.Replace(login.Addr(), "127.0.0.1", "0.0.0.0", 1)
	trusted := &sink.TLS{CA: starttls.Certificates.CA}
	auth := &smtp.Auth{Username: servers.MailUsername, Password: servers.MailPassword}
	for name, test := range map[string]struct {
		cfg   smtp.Config
		class sink.Class
		says  string
	}{
		"not offered":      {smtp.Config{Address: plain.Addr(), Security: smtp.StartTLS}, sink.ClassMisconfigured, "does not offer"},
		"no TLS there":     {smtp.Config{Address: plain.Addr(), Security: smtp.ImplicitTLS}, sink.ClassUnreachable, "check security"},
		"not trusted":      {smtp.Config{Address: starttls.Addr(), Security: smtp.StartTLS}, sink.ClassMisconfigured, "check tls.ca"},
		"another's":        {smtp.Config{Address: starttls.Addr(), Security: smtp.StartTLS, TLS: &sink.TLS{CA: trusted.CA, ServerName: "mail.example.org"}}, sink.ClassMisconfigured, "server_name"},
		"no login there":   {smtp.Config{Address: plain.Addr(), Auth: auth}, sink.ClassMisconfigured, "no authentication"},
		"other mechanism":  {smtp.Config{Address: login.Addr(), Auth: &smtp.Auth{Mechanism: "scram-sha-256", Username: "u", Password: "p"}}, sink.ClassMisconfigured, "offers only plain"},
		"password to all":  {smtp.Config{Address: elsewhere, Security: smtp.Opportunistic, Auth: &smtp.Auth{Mechanism: "plain", Username: "u", Password: "p"}}, sink.ClassMisconfigured, "no TLS"},
		"login is missing": {smtp.Config{Address: login.Addr()}, sink.ClassMisconfigured, "530"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, test.cfg)
			err := sinktest.Call(t.Context(), t, s, []*sink.Delivery{delivery("a", "a")})[0]
			if class(err) != test.class || !strings.Contains(fmt.Sprint(err), test.says) {
				t.Errorf("%v: %v, want %v, with %q", class(err), err, test.class, test.says)
			}
			if problems := s.Check(t.Context()); len(problems) != 1 {
				t.Errorf("check: %v", problems)
			}
		})
	}
	for _, s := range []*servers.MailServer{plain, login} {
		if n := len(s.Mails()); n > 0 {
			t.Errorf("%d mails were sent", n)
		}
	}
	if err := sinktest.Call(t.Context(), t, newSink(t, smtp.Config{Address: starttls.Addr(), Security: smtp.Opportunistic, TLS: trusted}),
		[]*sink.Delivery{delivery("a", "a")})[0]; err != nil || !starttls.Mails()[0].TLS {
		t.Errorf("opportunistic: %v", err)
	}
	if err := sinktest.Call(t.Context(), t, newSink(t, smtp.Config{Address: plain.Addr(), Security: smtp.Opportunistic}),
		[]*sink.Delivery{delivery("a", "a")})[0]; err != nil {
		t.Errorf("opportunistic without TLS: %v", err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := smtp.Config{Address: "smtp.example.org:587", From: "shop@example.org"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for key, change := range map[string]func(*smtp.Config){
		"address":        func(c *smtp.Config) { c.Address = "smtp.example.org" },
		"from":           func(c *smtp.Config) { c.From = "shop" },
		"envelope_from":  func(c *smtp.Config) { c.EnvelopeFrom = "a@b\r\nDATA" },
		"to":             func(c *smtp.Config) { c.To = pick(t, "nobody") },
		"cc":             func(c *smtp.Config) { c.CC = pick(t, "ops at example.org") },
		"bcc":            func(c *smtp.Config) { c.BCC = pick(t, "a@example.org, nobody") },
		"reply_to":       func(c *smtp.Config) { c.ReplyTo = pick(t, "a@b\r\nDATA") },
		"subject":        func(c *smtp.Config) { c.Subject = pick(t, "Hello\nBcc: a@example.org") },
		"security":       func(c *smtp.Config) { c.Security = "ssl" },
		"tls":            func(c *smtp.Config) { c.Security, c.TLS = smtp.None, &sink.TLS{} },
		"helo":           func(c *smtp.Config) { c.Helo = "a\r\nb" },
		"auth.mechanism": func(c *smtp.Config) { c.Auth = &smtp.Auth{Mechanism: "ntlm", Username: "u", Password: "p"} },
		"auth.username":  func(c *smtp.Config) { c.Auth = &smtp.Auth{Password: "p"} },
		"auth.password":  func(c *smtp.Config) { c.Auth = &smtp.Auth{Username: "u"} },
		"concurrency":    func(c *smtp.Config) { c.Concurrency = -1 },
	} {
		c := good
		change(&c)
		_, err := smtp.New(c)
		if err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: %v", key, err)
		}
	}
	picks := good
	picks.To, picks.CC, picks.BCC, picks.ReplyTo = pick(t, "A <a@example.org>, b@example.org"), pick(t, "header:cc"), pick(t, "payload:x.y"), pick(t, "message:key")
	if err := picks.Validate(); err != nil {
		t.Error(err)
	}
	open := good
	open.Security, open.Auth = smtp.None, &smtp.Auth{Mechanism: "plain", Username: "u", Password: "secret"}
	if err := open.Validate(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a password over an open connection: %v", err)
	}
}
