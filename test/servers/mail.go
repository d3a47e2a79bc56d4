package servers

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"
)

// What a mail server with authentication accepts.
const (
	MailUsername = "relay"
	MailPassword = "relay secret"
)

// MailServer is an SMTP server in this process. It keeps the mails that it accepts, in order, and does to each command
// what it is told to. Safe for concurrent use.
type MailServer struct {
	Certificates Certificates

	opts   MailOptions
	port   int
	tls    *tls.Config
	mu     sync.Mutex
	server *gosmtp.Server // nil while it is down
	on     func(MailEvent) error
	mails  []Mail
	conns  int
}

// MailOptions say what a mail server asks of its clients.
type MailOptions struct {
	// StartTLS is offered; ImplicitTLS is spoken from the first byte.
	StartTLS, ImplicitTLS bool
	// Mechanisms to authenticate by, which is demanded then. Login and PLAIN are built in; others are by Mechanism. They are
	// offered without TLS too.
	Mechanisms []string
	Mechanism  func(name string) sasl.Server
	// ASCII: addresses that are not ASCII are not taken.
	ASCII bool
}

// Mail is one that the server accepted.
type Mail struct {
	From string
	To   []string
	Data []byte
	// Conn counts connections, from 1. Username is who authenticated.
	Conn     int
	Username string
	TLS      bool
	// UTF8: the client asked for SMTPUTF8.
	UTF8 bool
}

// MailEvent is a step of a client: "connect" (at EHLO), "mail", "rcpt", "data" (before the content) or "end" (after it).
type MailEvent struct {
	Step string
	// Arg is the address of mail and rcpt.
	Arg  string
	Mail Mail
}

// Answers of a hook beside [MailAnswer] and nil.
var (
	// ErrMailDrop closes the connection, and the mail is not kept.
	ErrMailDrop = errors.New("drop")
	// ErrMailKeepAndDrop keeps the mail and closes the connection instead of an answer.
	ErrMailKeepAndDrop = errors.New("keep and drop")
)

// MailAnswer is an answer of the server with a code, such as 450, instead of its own.
func MailAnswer(code int, text string) error {
	return &gosmtp.SMTPError{Code: code, EnhancedCode: gosmtp.NoEnhancedCode, Message: text}
}

// StartMail starts a mail server for this test.
func StartMail(tb testing.TB, opts MailOptions) *MailServer {
	tb.Helper()
	s := &MailServer{opts: opts}
	var err error
	if s.Certificates, err = makeCertificates(tb.TempDir()); err != nil {
		tb.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(s.Certificates.ServerCert, s.Certificates.ServerKey)
	if err != nil {
		tb.Fatal(err)
	}
	s.tls = &tls.Config{Certificates: []tls.Certificate{pair}}
	if s.port, err = freePort(); err != nil {
		tb.Fatal(err)
	}
	if err := s.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Stop() })
	return s
}

// Addr is host:port of the server.
func (s *MailServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Start starts a server that was stopped, on the same port.
func (s *MailServer) Start() error {
	l, err := ListenAgain(s.Addr())
	if err != nil {
		return fmt.Errorf("start mail server: %w", err)
	}
	server := gosmtp.NewServer(gosmtp.BackendFunc(s.session))
	server.Domain = "localhost"
	server.AllowInsecureAuth = true
	server.EnableSMTPUTF8 = !s.opts.ASCII
	server.ErrorLog = log.New(io.Discard, "", 0)
	if s.opts.StartTLS {
		server.TLSConfig = s.tls
	}
	if s.opts.ImplicitTLS {
		l = tls.NewListener(l, s.tls)
	}
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	go func() { _ = server.Serve(l) }() // ends with Stop
	return nil
}

// Stop closes all connections, and refuses new ones.
func (s *MailServer) Stop() error {
	s.mu.Lock()
	server := s.server
	s.server = nil
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// On sets what is asked before each step: nil lets the server go on. It may block.
func (s *MailServer) On(hook func(MailEvent) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = hook
}

// Mails are those that were accepted so far.
func (s *MailServer) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Connections is how many clients greeted so far.
func (s *MailServer) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *MailServer) session(c *gosmtp.Conn) (gosmtp.Session, error) {
	s.mu.Lock()
	s.conns++
	one := &mailSession{server: s, conn: c, number: s.conns}
	s.mu.Unlock()
	if err := one.ask("connect", ""); err != nil {
		return nil, err
	}
	if len(s.opts.Mechanisms) > 0 {
		return &mailAuthSession{one}, nil
	}
	return one, nil
}

// mailSession is one client.
type mailSession struct {
	server   *MailServer
	conn     *gosmtp.Conn
	number   int
	username string
	mail     Mail
}

func (m *mailSession) ask(step, arg string) error {
	m.server.mu.Lock()
	hook := m.server.on
	m.server.mu.Unlock()
	if hook == nil {
		return nil
	}
	err := hook(MailEvent{Step: step, Arg: arg, Mail: m.mail})
	if errors.Is(err, ErrMailDrop) {
		_ = m.conn.Conn().Close() // The client sees it.
	}
	return err
}

// Reset implements the library's Session.
func (m *mailSession) Reset() { m.mail = Mail{} }

// Logout implements the library's Session.
func (m *mailSession) Logout() error { return nil }

// Mail implements the library's Session.
func (m *mailSession) Mail(from string, opts *gosmtp.MailOptions) error {
	if len(m.server.opts.Mechanisms) > 0 && m.username == "" {
		return MailAnswer(530, "authentication required")
	}
	_, encrypted := m.conn.TLSConnectionState()
	m.mail = Mail{From: from, Conn: m.number, Username: m.username, TLS: encrypted, UTF8: opts.UTF8}
	return m.ask("mail", from)
}

// Rcpt implements the library's Session.
func (m *mailSession) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	if err := m.ask("rcpt", to); err != nil {
		return err
	}
	m.mail.To = append(m.mail.To, to)
	return nil
}

// Data implements the library's Session.
func (m *mailSession) Data(r io.Reader) error {
	if err := m.ask("data", ""); err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mail.Data = data
	err = m.ask("end", "")
	if err != nil && !errors.Is(err, ErrMailKeepAndDrop) {
		return err
	}
	m.server.mu.Lock()
	m.server.mails = append(m.server.mails, m.mail)
	m.server.mu.Unlock()
	if err != nil {
		_ = m.conn.Conn().Close() // The client sees it.
	}
	return err
}

// mailAuthSession is a client that must authenticate.
type mailAuthSession struct{ *mailSession }

// AuthMechanisms implements the library's AuthSession.
func (m *mailAuthSession) AuthMechanisms() []string { return m.server.opts.Mechanisms }

// Auth implements the library's AuthSession.
func (m *mailAuthSession) Auth(mechanism string) (sasl.Server, error) {
	accept := func(username, password string) error {
		if username != MailUsername || password != MailPassword {
			return MailAnswer(535, "5.7.8 wrong username or password")
		}
		m.username = username
		return nil
	}
	switch mechanism {
	case sasl.Plain:
		return sasl.NewPlainServer(func(_, username, password string) error { return accept(username, password) }), nil
	case sasl.Login:
		return &loginServer{accept: accept}, nil
	}
	if m.server.opts.Mechanism == nil {
		return nil, gosmtp.ErrAuthUnknownMechanism
	}
	return &namedServer{m.server.opts.Mechanism(mechanism), m.mailSession}, nil
}

// loginServer is AUTH LOGIN, which the library has no server for.
type loginServer struct {
	accept   func(username, password string) error
	step     int
	username string
}

// Next implements sasl.Server.
func (l *loginServer) Next(answer []byte) (challenge []byte, done bool, err error) {
	l.step++
	switch {
	case l.step == 1 && answer == nil:
		return []byte("Username:"), false, nil
	case l.username == "":
		l.username = string(answer)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.accept(l.username, string(answer))
}

// namedServer notes who got through another mechanism.
type namedServer struct {
	sasl.Server
	session *mailSession
}

// Next implements sasl.Server.
func (n *namedServer) Next(answer []byte) (challenge []byte, done bool, err error) {
	challenge, done, err = n.Server.Next(answer)
	if done && err == nil {
		n.session.username = MailUsername
	}
	return challenge, done, err
}
