package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tailbox/tailbox/internal/socket"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

const (
	// A server that does not answer pingsMissed pings in a row, one each pingEvery, is gone.
	pingEvery   = 5 * time.Second
	pingsMissed = 2
	// maxPending is far above what Limits allow: it only bounds what calls leave behind that ended before their answers.
	maxPending = 1 << 20
)

// conn is one connection to one server. The library does not connect anew by itself: what it kept meanwhile would be
// sent behind our back, after the relay was told that it failed.
type conn struct {
	nc     *natsgo.Conn
	js     jetstream.JetStream
	closed chan struct{}
	cut    func() // closes the socket at once, even while a write to it hangs

	denials
}

// alive reports whether messages can be published.
func (c *conn) alive() bool {
	select {
	case <-c.closed:
		return false
	default:
		return c.orDeaf(nil) == nil && c.nc.IsConnected()
	}
}

// told takes what the server or the library says about no message in particular.
func (c *conn) told(_ *natsgo.Conn, _ *natsgo.Subscription, err error) {
	if !errors.Is(err, natsgo.ErrPermissionViolation) {
		return // The connection ends, or the answer shows it.
	}
	subject, publish := deniedSubject(err.Error())
	if !publish {
		// What is published now would be stored, and again with each further try. A new connection finds out whether the inbox
		// is allowed by then.
		c.deafen(deaf(err, subject))
		c.cut()
		return
	}
	// The server's words repeat the subject, which may be so long that the fix behind it would be cut off.
	c.deny(subject, sink.Misconfigured(fmt.Errorf("publish to %s: %w: allow the relay's user to publish there", outbox.Shorten(subject), natsgo.ErrPermissionViolation)))
}

// deaf is the error of a user who may not subscribe to the inbox.
func deaf(err error, subject string) error {
	return sink.Misconfigured(fmt.Errorf("receive answers: %w: allow the relay's user to subscribe to %q, or set inbox_prefix to what it may", err, subject))
}

// listen makes sure that answers can be heard, before the first message asks for one: the server says nothing to a
// subscription that it allows, and the library makes its own only together with that message.
func (c *conn) listen(ctx context.Context, timeout time.Duration) error {
	subject := c.nc.NewInbox() + ".*" // of the form that the library's have
	probe, err := c.nc.ChanSubscribe(subject, make(chan *natsgo.Msg, 1))
	if err != nil {
		return sink.Unreachable(fmt.Errorf("receive answers: %w", err))
	}
	flushCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = c.nc.FlushWithContext(flushCtx)
	if last := c.nc.LastError(); errors.Is(last, natsgo.ErrPermissionViolation) {
		return deaf(last, subject)
	}
	// told may have cut the connection by now.
	denial := c.orDeaf(nil)
	switch {
	case denial != nil:
		return denial
	case ctx.Err() != nil:
		return sink.NotAttempted(fmt.Errorf("receive answers: %w", context.Cause(ctx)))
	case errors.Is(err, natsgo.ErrConnectionClosed):
		return sink.Unreachable(fmt.Errorf("receive answers: the connection ended: %w", c.end()))
	case err != nil:
		return sink.Unreachable(fmt.Errorf("receive answers: %w", err))
	}
	if err := probe.Unsubscribe(); err != nil {
		return sink.Unreachable(fmt.Errorf("receive answers: %w", err))
	}
	return nil
}

// dialer connects for the library, and can cut what it connected.
type dialer struct {
	ctx     context.Context //nolint:containedctx // of one connecting, whose interface has no place for it
	timeout time.Duration
	tls     *tls.Config // nil: the defaults, if the server demands TLS

	mu   sync.Mutex
	conn *guard
	host string
}

// Dial implements the library's CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	nc, err := (&net.Dialer{Timeout: d.timeout, KeepAlive: 15 * time.Second}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = newGuard(socket.Quiet(nc))
	d.host, _, _ = net.SplitHostPort(address)
	return d.conn, nil
}

// SkipTLSHandshake is asked by the library where it would speak TLS over the connection. The guard does that below itself:
// what fails comes with the next read or write.
func (d *dialer) SkipTLSHandshake() bool {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.tls != nil {
		cfg = d.tls.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = d.host
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	d.conn.startTLS(ctx, cfg)
	return true
}

func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close() // It is given up: nothing depends on how it ends.
	}
}

// connection returns the one connection, made anew where it is gone. Its errors have a class.
func (s *Sink) connection(ctx context.Context) (*conn, error) {
	if c := s.current.Load(); c != nil && c.alive() {
		return c, nil
	}
	select {
	case s.dialing <- struct{}{}:
		defer func() { <-s.dialing }()
	case <-ctx.Done():
		return nil, sink.NotAttempted(fmt.Errorf("connect: %w", context.Cause(ctx)))
	}
	old := s.current.Load()
	if old != nil && old.alive() {
		return old, nil // Somebody else made it.
	}
	c, err := s.dial(ctx, s.servers(old))
	if err != nil {
		return nil, err
	}
	s.current.Store(c)
	return c, nil
}

// servers are those of the configuration in a random order, and then those that the last connection learnt of.
func (s *Sink) servers(old *conn) []string {
	var all []string
	for _, server := range s.cfg.Servers {
		all = append(all, address(server))
	}
	s.shuffle(all)
	if old == nil {
		return all
	}
	for _, server := range old.nc.DiscoveredServers() {
		if !slices.Contains(all, server) {
			all = append(all, server)
		}
	}
	return all
}

// dial connects to the first of the servers that answers.
func (s *Sink) dial(ctx context.Context, servers []string) (*conn, error) {
	c := &conn{closed: make(chan struct{}), denials: newDenials()}
	d := &dialer{ctx: ctx, timeout: s.cfg.ConnectTimeout, tls: s.tls}
	c.cut = d.cut
	opts, err := s.options(servers)
	if err != nil {
		return nil, err
	}
	opts.CustomDialer = d
	opts.ClosedCB = func(*natsgo.Conn) { close(c.closed) }
	opts.AsyncErrorCB = c.told
	stop := context.AfterFunc(ctx, d.cut)
	nc, err := opts.Connect()
	if !stop() && err == nil {
		nc.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, s.unconnected(ctx, servers, err)
	}
	c.nc = nc
	if err := c.listen(ctx, s.cfg.ConnectTimeout); err != nil {
		nc.Close()
		return nil, err
	}
	if c.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithPublishAsyncTimeout(s.cfg.Timeout),
		jetstream.WithDefaultTimeout(s.cfg.ConnectTimeout)); err != nil {
		nc.Close()
		return nil, sink.Misconfigured(fmt.Errorf("use JetStream: %w", err))
	}
	return c, nil
}

// options are the library's for a connection to one of servers.
func (s *Sink) options(servers []string) (*natsgo.Options, error) {
	o := natsgo.GetDefaultOptions()
	o.Servers, o.NoRandomize = servers, true
	o.AllowReconnect = false
	// A write that failed ends the connection: the library would go on, without what it had to write.
	o.ReconnectOnFlusherError = true
	o.Name = s.cfg.Name
	o.Timeout, o.FlusherTimeout = s.cfg.ConnectTimeout, s.cfg.ConnectTimeout
	o.PingInterval, o.MaxPingsOut = pingEvery, pingsMissed
	o.SkipHostLookup = true // the dialer does that, within its context
	o.InboxPrefix = s.cfg.InboxPrefix
	o.User, o.Password, o.Token = s.cfg.Username, s.cfg.Password, s.cfg.Token
	if s.tls != nil {
		o.Secure, o.TLSConfig = true, s.tls
	}
	if s.cfg.NKey != "" {
		seed := []byte(strings.TrimSpace(s.cfg.NKey))
		pair, err := nkeys.FromSeed(seed)
		if err != nil {
			return nil, sink.Misconfigured(errors.New("nkey: want a user's seed"))
		}
		if o.Nkey, err = pair.PublicKey(); err != nil {
			return nil, sink.Misconfigured(fmt.Errorf("nkey: %w", err))
		}
		o.SignatureCB = pair.Sign
	}
	if s.cfg.Credentials != "" {
		if err := natsgo.UserCredentialBytes([]byte(s.cfg.Credentials))(&o); err != nil {
			return nil, sink.Misconfigured(errors.New("creds: want the text of a .creds file"))
		}
	}
	return &o, nil
}
