package smtp

import (
	"errors"
	"net"
	"net/mail"
	"os"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// Security says how a connection is protected.
type Security string

// Kinds of protection.
const (
	// StartTLS: the connection turns to TLS by STARTTLS, or is not used. The default, but for the two below.
	StartTLS Security = "starttls"
	// ImplicitTLS: TLS from the first byte. The default for port 465.
	ImplicitTLS Security = "tls"
	// Opportunistic: STARTTLS where the server offers it, else none.
	Opportunistic Security = "opportunistic"
	// None: no TLS. The default for a server on this machine.
	None Security = "none"
)

// Defaults of a Config.
const (
	DefaultSubject          = "payload:subject"
	DefaultTo               = "payload:to"
	DefaultConcurrency      = 4
	DefaultMaxBatch         = 10
	DefaultMaxBytes         = 16 << 20
	DefaultMaxPerConnection = 100
	DefaultTimeout          = time.Minute
	DefaultConnectTimeout   = 10 * time.Second
	DefaultIdleTimeout      = 15 * time.Second
)

// Config of a Sink. The zero value of a field means its default.
type Config struct {
	// Address of the server, host:port. Required.
	Address string
	// From is the sender, such as "Shop <shop@example.org>". Required.
	From string
	// EnvelopeFrom is where bounces go. Default: the address in From.
	EnvelopeFrom string
	// Where the parts of a mail come from. Default: the members to, cc, bcc, reply_to, subject, text (else body) and html of
	// a payload that is a JSON object.
	To, CC, BCC, ReplyTo, Subject, Text, HTML sink.Pick
	// Security is one of the constants. Default starttls; tls for port 465, none for a server on this machine.
	Security Security
	// TLS says whom to trust, and how to present oneself.
	TLS *sink.TLS
	// Auth, if not nil, is how to authenticate.
	Auth *Auth
	// Helo is the name the relay greets with. Default: the machine's.
	Helo string
	// Concurrency is the most connections. Default 4.
	Concurrency int
	// MaxBatch is the most mails, and MaxBytes the most bytes of payloads, in one call. Default 10 and 16 MiB. What a crash may
	// repeat is at most that many mails a connection.
	MaxBatch int
	MaxBytes int
	// MaxPerConnection is the most mails over one connection. Default 100.
	MaxPerConnection int
	// Timeout bounds the sending of one mail, and how long a call waits for the answer to it. If the server took longer with its last answer, a call waits
	// twice as long as that. Default 1 min.
	Timeout time.Duration
	// ConnectTimeout bounds connecting, TLS and authentication included. Default 10 s.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Default 15 s.
	IdleTimeout time.Duration
	// Raw lets a message whose content type is message/rfc822 be the mail itself. Who writes such a row chooses the header From.
	Raw bool
	// OmitMetadata leaves out the headers X-Tailbox-* (in the configuration: metadata_headers: false).
	OmitMetadata bool
}

// Auth says how to authenticate.
type Auth struct {
	// Mechanism is auto, plain, login, cram-md5, scram-sha-1 or scram-sha-256. Default auto: the best that the server offers.
	Mechanism          string
	Username, Password string
}

// Read reads the keys of a sink of kind smtp.
func Read(s sink.Section) Config {
	c := Config{
		Address:          s.Host("address"),
		From:             s.String("from", ""),
		EnvelopeFrom:     s.String("envelope_from", ""),
		To:               sink.ReadPick(s, "to"),
		CC:               sink.ReadPick(s, "cc"),
		BCC:              sink.ReadPick(s, "bcc"),
		ReplyTo:          sink.ReadPick(s, "reply_to"),
		Subject:          sink.ReadPick(s, "subject"),
		Text:             sink.ReadPick(s, "text"),
		HTML:             sink.ReadPick(s, "html"),
		Security:         Security(s.String("security", "")),
		Helo:             s.String("helo", ""),
		Concurrency:      s.Int("concurrency", DefaultConcurrency, 1, 1000),
		MaxBatch:         s.Int("max_batch", DefaultMaxBatch, 1, 10_000),
		MaxBytes:         int(s.Size("max_bytes", DefaultMaxBytes, 1)),
		MaxPerConnection: s.Int("max_per_connection", DefaultMaxPerConnection, 1, 1_000_000),
		Timeout:          s.Positive("timeout", DefaultTimeout),
		ConnectTimeout:   s.Positive("connect_timeout", DefaultConnectTimeout),
		IdleTimeout:      s.Positive("idle_timeout", DefaultIdleTimeout),
		TLS:              sink.ReadTLS(s),
		Raw:              s.Bool("raw", false),
		OmitMetadata:     !s.Bool("metadata_headers", true),
	}
	s.Within("auth", func(auth sink.Section) {
		c.Auth = &Auth{Mechanism: auth.String("mechanism", ""), Username: auth.String("username", ""), Password: auth.Secret("password")}
	})
	return c
}

// Server implements sink.Served.
func (c Config) Server() (host string, port int) {
	host, text, err := net.SplitHostPort(c.Address)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(text) // Validate has read it
	return host, port
}

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

func (c Config) withDefaults() Config {
	host, port, _ := net.SplitHostPort(c.Address)
	switch {
	case c.Security != "":
	case port == "465":
		c.Security = ImplicitTLS
	case sink.Loopback(host):
		c.Security = None
	default:
		c.Security = StartTLS
	}
	if c.Auth != nil && c.Auth.Mechanism == "" {
		auth := *c.Auth
		auth.Mechanism = autoMechanism
		c.Auth = &auth
	}
	if c.Helo == "" {
		c.Helo = "localhost"
		if name, err := os.Hostname(); err == nil && validHelo(name) {
			c.Helo = name
		}
	}
	sink.SetDefault(&c.Concurrency, DefaultConcurrency)
	sink.SetDefault(&c.MaxBatch, DefaultMaxBatch)
	sink.SetDefault(&c.MaxBytes, DefaultMaxBytes)
	sink.SetDefault(&c.MaxPerConnection, DefaultMaxPerConnection)
	sink.SetDefault(&c.Timeout, DefaultTimeout)
	sink.SetDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	sink.SetDefault(&c.IdleTimeout, DefaultIdleTimeout)
	return c
}

// validHelo accepts a name of a machine, or an address in brackets.
func validHelo(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return name != "" && len(name) <= 255
}

// Validate returns all problems of c.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, sink.Invalid(key, value, want))
		}
	}
	host, port, err := net.SplitHostPort(c.Address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	check(err == nil && portErr == nil && host != "" && n > 0, "address", c.Address, "host:port, such as smtp.example.org:587")
	_, err = mail.ParseAddress(c.From)
	check(err == nil, "from", c.From, "an address, such as shop@example.org or \"Shop <shop@example.org>\"")
	if c.EnvelopeFrom != "" {
		_, err = mail.ParseAddress(c.EnvelopeFrom)
		check(err == nil, "envelope_from", c.EnvelopeFrom, "an address")
	}
	// What every mail has and no mail can have would make all of them dead letters.
	for _, one := range []struct {
		key  string
		pick sink.Pick
	}{{"to", c.To}, {"cc", c.CC}, {"bcc", c.BCC}, {"reply_to", c.ReplyTo}} {
		if text, ok := one.pick.IsText(); ok {
			_, err = parseAddresses(text)
			check(err == nil, one.key, text, "addresses, or "+sink.PickForms)
		}
	}
	if text, ok := c.Subject.IsText(); ok {
		check(oneLine(text), "subject", text, "one line without control characters, or "+sink.PickForms)
	}
	switch c.Security {
	case StartTLS, ImplicitTLS, Opportunistic, None:
	default:
		check(false, "security", string(c.Security), "starttls, tls, opportunistic or none")
	}
	check(c.TLS == nil || c.Security != None, "tls", "set", "security: starttls, tls or opportunistic")
	check(validHelo(c.Helo), "helo", c.Helo, "the relay's host name")
	if c.Auth != nil {
		check(knownMechanism(c.Auth.Mechanism), "auth.mechanism", c.Auth.Mechanism, "auto, plain, login, cram-md5, scram-sha-1 or scram-sha-256")
		check(c.Auth.Username != "", "auth.username", c.Auth.Username, "a user's name")
		check(c.Auth.Password != "", "auth.password", "", "that user's password")
		plain := c.Auth.Mechanism == "plain" || c.Auth.Mechanism == "login"
		check(!plain || c.Security != None || sink.Loopback(host), "auth.mechanism", c.Auth.Mechanism,
			"security: starttls or tls, since this mechanism shows the password to whoever listens")
	}
	check(c.Concurrency > 0 && c.Concurrency <= 1000, "concurrency", c.Concurrency, "1 to 1000")
	check(c.MaxBatch > 0 && c.MaxBatch <= 10_000, "max_batch", c.MaxBatch, "1 to 10000")
	check(c.MaxBytes > 0, "max_bytes", c.MaxBytes, "more than 0")
	check(c.MaxPerConnection > 0, "max_per_connection", c.MaxPerConnection, "more than 0")
	check(c.Timeout > 0, "timeout", c.Timeout, "more than 0")
	check(c.ConnectTimeout > 0, "connect_timeout", c.ConnectTimeout, "more than 0")
	check(c.IdleTimeout > 0, "idle_timeout", c.IdleTimeout, "more than 0")
	return errors.Join(append(errs, c.TLS.Validate())...)
}
