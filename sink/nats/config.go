package nats

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/tailbox/tailbox/sink"
)

// Defaults of a Config.
const (
	DefaultName           = "tailbox"
	DefaultMsgID          = MsgIDAuto
	DefaultConcurrency    = 64
	DefaultMaxBatch       = 500
	DefaultMaxBytes       = 4 << 20
	DefaultTimeout        = 30 * time.Second
	DefaultConnectTimeout = 10 * time.Second
)

// What goes into the header Nats-Msg-Id, by which a stream drops what it has already.
const (
	// MsgIDAuto: the message's id; where that is a bare number, which other tables use too, pipeline/table/number.
	MsgIDAuto = "auto"
	// MsgIDPlain: the message's id as it is.
	MsgIDPlain = "id"
	// MsgIDQualified: pipeline/table/id.
	MsgIDQualified = "qualified"
	// MsgIDNone: nothing, and no message is dropped.
	MsgIDNone = "none"
)

// Config of a Sink. The zero value of a field means its default.
type Config struct {
	// Servers are URLs, nats://host:port or tls://host:port, of some of the cluster's servers; the others are learnt from
	// them. Required.
	Servers []string
	// Stream, if set, must be the one that takes a message: another one refuses it.
	Stream string
	// Subjects are those that Check looks for. Messages may go to others.
	Subjects []string
	// Name tells the relay in the server's lists of connections. Default tailbox.
	Name string
	// Username and Password, or Token, or NKey (a user's seed), or Credentials (the text of a .creds file).
	Username, Password string
	Token              string
	NKey               string
	Credentials        string
	// InboxPrefix is what the subjects begin with on which answers come. Default _INBOX.
	InboxPrefix string
	// MsgID is one of the MsgID constants.
	MsgID string
	// Concurrency is the most calls in flight at once. Default 64.
	Concurrency int
	// MaxBatch is the most messages, and MaxBytes the most bytes of values, in one call. Default 500 and 4 MiB.
	MaxBatch int
	MaxBytes int
	// Timeout is how long an answer is waited for. Default 30 s.
	Timeout time.Duration
	// ConnectTimeout bounds connecting to one server, TLS and authentication included. Default 10 s.
	ConnectTimeout time.Duration
	// TLS, if not nil, is how to speak TLS, which is then demanded.
	TLS *sink.TLS
	// AllowPlaintext: password and token may go to other machines without encryption.
	AllowPlaintext bool
	// OmitMetadata leaves out the headers tailbox-* (in the configuration: metadata_headers: false).
	OmitMetadata bool
}

// Read reads the keys of a sink of kind nats.
func Read(s sink.Section) Config {
	return Config{
		Servers:        s.URLs("servers"),
		Stream:         s.String("stream", ""),
		Subjects:       s.Strings("subjects"),
		Name:           s.String("name", DefaultName),
		Username:       s.String("username", ""),
		Password:       s.Secret("password"),
		Token:          s.Secret("token"),
		NKey:           s.Secret("nkey"),
		Credentials:    s.Secret("creds"),
		InboxPrefix:    s.String("inbox_prefix", ""),
		MsgID:          s.String("msg_id", DefaultMsgID),
		Concurrency:    s.Int("concurrency", DefaultConcurrency, 1, 10_000),
		MaxBatch:       s.Int("max_batch", DefaultMaxBatch, 1, 10_000),
		MaxBytes:       int(s.Size("max_bytes", DefaultMaxBytes, 1)),
		Timeout:        s.Positive("timeout", DefaultTimeout),
		ConnectTimeout: s.Positive("connect_timeout", DefaultConnectTimeout),
		TLS:            sink.ReadTLS(s),
		AllowPlaintext: s.Bool("allow_plaintext", false),
		OmitMetadata:   !s.Bool("metadata_headers", true),
	}
}

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

func (c Config) withDefaults() Config {
	sink.SetDefault(&c.Name, DefaultName)
	sink.SetDefault(&c.MsgID, DefaultMsgID)
	sink.SetDefault(&c.Concurrency, DefaultConcurrency)
	sink.SetDefault(&c.MaxBatch, DefaultMaxBatch)
	sink.SetDefault(&c.MaxBytes, DefaultMaxBytes)
	sink.SetDefault(&c.Timeout, DefaultTimeout)
	sink.SetDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	return c
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
	check(len(c.Servers) > 0, "servers", "", "at least one URL, such as nats://127.0.0.1:4222")
	for _, server := range c.Servers {
		// It may hold a password: an error names the key alone.
		if err := validServer(server); err != nil {
			errs = append(errs, err)
		}
	}
	for _, subject := range c.Subjects {
		err := validSubject(subject)
		check(err == nil, "subjects", subject, "subjects that messages go to, without wildcards")
	}
	check(c.Stream == "" || validStream(c.Stream), "stream", c.Stream, "a stream's name: no spaces, dots, *, > or slashes")
	check(c.InboxPrefix == "" || validSubject(c.InboxPrefix) == nil, "inbox_prefix", c.InboxPrefix, "a subject without wildcards")
	switch c.MsgID {
	case MsgIDAuto, MsgIDPlain, MsgIDQualified, MsgIDNone:
	default:
		check(false, "msg_id", c.MsgID, "auto, id, qualified or none")
	}
	errs = append(errs, c.validateLogin()...)
	check(c.Concurrency > 0 && c.Concurrency <= 10_000, "concurrency", c.Concurrency, "1 to 10000")
	check(c.MaxBatch > 0 && c.MaxBatch <= 10_000, "max_batch", c.MaxBatch, "1 to 10000")
	check(c.MaxBytes > 0 && c.MaxBytes <= 64<<20, "max_bytes", c.MaxBytes, "1 B to 64 MiB")
	check(c.Timeout > 0, "timeout", c.Timeout, "more than 0")
	check(c.ConnectTimeout > 0, "connect_timeout", c.ConnectTimeout, "more than 0")
	return errors.Join(append(errs, c.TLS.Validate())...)
}

func (c Config) validateLogin() (errs []error) {
	ways := 0
	for _, set := range []bool{c.Username != "" || c.Password != "", c.Token != "", c.NKey != "", c.Credentials != ""} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, errors.New("username: not allowed: want one way to log in: username and password, token, nkey or creds"))
	}
	if c.Username == "" && c.Password != "" {
		errs = append(errs, sink.Invalid("username", "", "a user's name, because password is set"))
	}
	if c.NKey != "" {
		pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(c.NKey)))
		if err != nil {
			errs = append(errs, errors.New("nkey: not allowed: want a user's seed, which begins with SU"))
		} else {
			pair.Wipe()
		}
	}
	if c.Credentials != "" {
		pair, err := nkeys.ParseDecoratedUserNKey([]byte(c.Credentials))
		if err != nil {
			errs = append(errs, errors.New("creds: not allowed: want the text of a .creds file, with a user's JWT and seed; name the file in creds_file"))
		} else {
			pair.Wipe()
		}
	}
	return errs
}

// validServer accepts nats://host:port, tls://host:port and host:port; the port may be left out.
func validServer(server string) error {
	want := errors.New("servers: not allowed: want URLs like nats://host:4222 or tls://host:4222")
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return want
	}
	if u.User != nil {
		return errors.New("servers: not allowed: put the user, password or token of a URL into username, password or token")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return want
		}
	}
	return nil
}

// address is the URL that the library gets for one of the servers.
func address(server string) string {
	if !strings.Contains(server, "://") {
		server = "nats://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "4222")
	}
	u.Path = ""
	return u.String()
}

func validStream(name string) bool {
	return !strings.ContainsAny(name, " \t\r\n.*>/\\") && len(name) <= 255
}

// plaintext says that a password or token goes over the network in the clear. nkey and creds only sign.
func (c Config) plaintext() error {
	if c.AllowPlaintext || c.TLS != nil || c.Password == "" && c.Token == "" {
		return nil
	}
	var open []string
	for _, server := range c.Servers {
		if !strings.HasPrefix(server, "tls://") {
			open = append(open, address(server))
		}
	}
	key := "password"
	if c.Token != "" {
		key = "token"
	}
	return sink.Plaintext(key, open...)
}
