package smtp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	mailsmtp "github.com/wneessen/go-mail/smtp"

	"github.com/tailbox/tailbox/sink"
)

// session is one connection that mails can be sent over, one at a time.
type session struct {
	client  *mailsmtp.Client
	conn    net.Conn
	address string
	sent    int // mails that were tried over it
	idle    time.Time
}

// connect opens a session. Its errors have a class: nothing of a mail was sent.
func (s *Sink) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.ConnectTimeout, errTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return nil, s.unconnected(ctx, "connect", err)
	}
	conn := &guardedConn{Conn: raw}
	// Ends whatever hangs below, in good time.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	client, step, err := s.greet(ctx, conn)
	if !stop() && err == nil {
		step, err = "connect", context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close() // It is given up: nothing depends on how it ends.
		return nil, s.unconnected(ctx, step, err)
	}
	return &session{client: client, conn: conn, address: s.cfg.Address}, nil
}

// greet does all that comes before the first mail, and says which step failed.
func (s *Sink) greet(ctx context.Context, conn net.Conn) (client *mailsmtp.Client, step string, err error) {
	if s.cfg.Security == ImplicitTLS {
		tc := tls.Client(conn, s.tls)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, "shake hands", handshakeError{err}
		}
		conn = tc
	}
	if client, err = mailsmtp.NewClient(conn, s.host); err != nil {
		return nil, "greeting", err
	}
	if err := client.Hello(s.cfg.Helo); err != nil {
		return nil, "EHLO", err
	}
	offered, _ := client.Extension("STARTTLS")
	switch {
	case s.cfg.Security == StartTLS && !offered:
		return nil, "STARTTLS", sink.Misconfigured(errors.New("the server does not offer it: set security to tls where it speaks TLS from the start, " +
			"or to opportunistic or none to send without"))
	case offered && (s.cfg.Security == StartTLS || s.cfg.Security == Opportunistic):
		if err := client.StartTLS(s.tls); err != nil {
			return nil, "STARTTLS", handshakeError{err}
		}
	}
	if s.cfg.Auth == nil {
		return client, "", nil
	}
	auth, err := s.auth(client)
	if err == nil {
		err = client.Auth(auth)
	}
	return client, "AUTH", err
}

// handshakeError is one of TLS.
type handshakeError struct{ error }

// Unwrap returns what happened.
func (e handshakeError) Unwrap() error { return e.error }

// autoMechanism picks the best that the server offers.
const autoMechanism = "auto"

// mechanisms in the order in which auto prefers them: those that keep the password from the server come first.
func mechanisms() []string {
	return []string{"scram-sha-256", "scram-sha-1", "cram-md5", "plain", "login"}
}

func knownMechanism(name string) bool {
	return name == autoMechanism || slices.Contains(mechanisms(), name)
}

// auth chooses how to authenticate.
func (s *Sink) auth(client *mailsmtp.Client) (mailsmtp.Auth, error) {
	ok, list := client.Extension("AUTH")
	offered := strings.Fields(strings.ToLower(list))
	if !ok || len(offered) == 0 {
		return nil, sink.Misconfigured(errors.New("the server offers no authentication here: remove auth, or connect to the port for submission with TLS"))
	}
	a := s.cfg.Auth
	_, encrypted := client.TLSConnectionState()
	// The library's own test for that knows fewer names of this machine.
	open := encrypted || sink.Loopback(s.host)
	name := a.Mechanism
	if name == autoMechanism {
		for _, one := range mechanisms() {
			if slices.Contains(offered, one) && (open || one != "plain" && one != "login") {
				name = one
				break
			}
		}
	}
	if !slices.Contains(offered, name) {
		return nil, sink.Misconfigured(fmt.Errorf("the server offers only %s: set auth.mechanism to one of them, and security to starttls or tls",
			strings.Join(offered, ", ")))
	}
	if !open && (name == "plain" || name == "login") {
		return nil, sink.Misconfigured(fmt.Errorf("the connection has no TLS, and %s shows the password to whoever listens: set security to starttls or tls", name))
	}
	switch name {
	case "scram-sha-256":
		return guardedAuth{mailsmtp.ScramSHA256Auth(a.Username, a.Password)}, nil
	case "scram-sha-1":
		return guardedAuth{mailsmtp.ScramSHA1Auth(a.Username, a.Password)}, nil
	case "cram-md5":
		return mailsmtp.CRAMMD5Auth(a.Username, a.Password), nil
	case "login":
		return mailsmtp.LoginAuth(a.Username, a.Password, s.host, open), nil
	}
	return mailsmtp.PlainAuth("", a.Username, a.Password, s.host, open), nil
}

// send sends one mail up to its end. The answer comes by the ending. Without one the server has refused the mail before, and usable tells whether
// the session can send another one.
func (ss *session) send(l *letter, timeout, longest time.Duration) (e *ending, usable bool, err error) {
	ss.sent++
	if err := ss.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, false, sink.Unreachable(fmt.Errorf("send to %s: %w", ss.address, err))
	}
	if usable, err = ss.envelope(l); err != nil {
		return nil, usable, err
	}
	w, err := ss.client.Data()
	if err != nil {
		usable, err = ss.refused("DATA", err, refusedMail, l.to)
		return nil, usable, err
	}
	if _, err := w.Write(l.data); err != nil {
		return nil, false, sink.Unreachable(fmt.Errorf("send to %s: the mail was not written to its end, and so not accepted: %w", ss.address, err))
	}
	e, err = ss.finish(w, longest)
	return e, false, err
}

// envelope tells the server who sends the mail, and to whom.
func (ss *session) envelope(l *letter) (usable bool, err error) {
	if err := ss.readable(l); err != nil {
		return true, err
	}
	if err := ss.from(l); err != nil {
		return ss.refused("MAIL FROM", err, refusedSender, nil)
	}
	for i, to := range l.to {
		if err := ss.client.Rcpt(to.address); err != nil {
			whose := refusedMail
			if to.key != "" {
				whose = refusedFixed
			}
			return ss.refused(fmt.Sprintf("RCPT TO, recipient %d of %d%s", i+1, len(l.to), of(to.key)), err, whose, l.to)
		}
	}
	return true, nil
}

// from tells the server who sends. It asks for SMTPUTF8 only if an address or a header needs it: no server may pass a mail with that mark to one that does not
// offer it, so that the mail would bounce at a recipient far away.
func (ss *session) from(l *letter) error {
	head, _, _ := bytes.Cut(l.data, []byte("\r\n\r\n"))
	ss.client.SkipSMTPUTF8(!l.international && ascii(string(head)))
	return ss.client.Mail(l.from)
}

// of says which key of the configuration names a recipient, if any does.
func of(key string) string {
	if key == "" {
		return ""
	}
	return " (the sink's " + key + ")"
}

// readable refuses a mail whose addresses the server cannot read. If the configuration names such an address, every mail is refused, and
// none of them is to blame.
func (ss *session) readable(l *letter) error {
	if ok, _ := ss.client.Extension("SMTPUTF8"); ok || !l.international {
		return nil
	}
	key := ""
	for _, to := range l.to {
		if to.key != "" && !ascii(to.address) {
			key = to.key
		}
	}
	if !ascii(l.from) {
		key = "from or envelope_from"
	}
	err := fmt.Errorf("send to %s: the server cannot take addresses that are not ASCII (it does not offer SMTPUTF8)", ss.address)
	if key == "" {
		return sink.Permanent(err)
	}
	return sink.Misconfigured(fmt.Errorf("%w, such as that of %s: give an address in ASCII, or a server that offers it", err, key))
}

// fresh makes the session ready for the next mail: the server forgets the last one, and shows that it is still there.
func (ss *session) fresh(ctx context.Context, timeout time.Duration) bool {
	if ss.conn.SetDeadline(time.Now().Add(timeout)) != nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = ss.conn.Close() })
	err := ss.client.Reset()
	return stop() && err == nil
}

// end says good-bye where that takes no time.
func (ss *session) end() {
	// The mails are settled: nothing depends on how the connection ends.
	_ = ss.conn.SetDeadline(time.Now().Add(time.Second))
	_ = ss.client.Quit()
	_ = ss.conn.Close()
}
