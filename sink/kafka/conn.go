package kafka

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"github.com/tailbox/tailbox/internal/socket"
	"github.com/tailbox/tailbox/sink"
)

// The client library's own connections hide three things that decide what an error means: whether a request was
// written at all, whether an idle connection has died in the meantime, and when the metadata were asked for. So
// the sink has connections of its own, and takes from the library what goes over them.

// maxIdle is how long an unused connection is kept: less than the 10 minutes after which brokers close it, and than
// what firewalls remember.
const maxIdle = 2 * time.Minute

// conn is a connection to one broker, with one request at a time.
type conn struct {
	address  string
	clientID string
	nc       net.Conn
	reader   *bufio.Reader
	versions map[protocol.ApiKey]int16
	// correlation numbers the requests. Owned by the caller of the running request.
	correlation int32
	idleSince   time.Time // zero: never used
	expires     time.Time // zero: never
	mutedUntil  time.Time // the broker reads nothing from it before; zero: it does

	// late closes the connection when the time of a request is over, and sets overdue. It runs during requests that have a timeout.
	late    *time.Timer
	overdue atomic.Bool

	mu      sync.Mutex
	waiting bool // for the answer to asked
	asked   call
	answers chan protocol.Message

	// dead is closed when nothing more will be read; err says why.
	dead chan struct{}
	err  error
}

// call is what the answer to a request is checked against.
type call struct {
	key         protocol.ApiKey
	version     int16
	correlation int32
}

// dialer makes connections that are ready for requests.
type dialer struct {
	cfg Config
	tls *tls.Config
}

// dial connects to a broker, and authenticates. Its errors have a class.
func (d *dialer) dial(ctx context.Context, address string) (*conn, error) {
	dialCtx, cancel := context.WithTimeout(ctx, d.cfg.ConnectTimeout)
	defer cancel()
	c, err := d.connect(dialCtx, address)
	if err == nil {
		return c, nil
	}
	err = fmt.Errorf("connect to broker %s: %w", address, err)
	if class, _, _ := sink.Classify(err); class == sink.ClassMisconfigured {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, sink.NotAttempted(err)
	}
	return nil, sink.Unreachable(err)
}

func (d *dialer) connect(ctx context.Context, address string) (*conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	nc = socket.Quiet(nc)
	if d.tls != nil {
		cfg := d.tls
		if cfg.ServerName == "" {
			cfg = cfg.Clone()
			if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
				return nil, errors.Join(err, nc.Close())
			}
		}
		tc := tls.Client(nc, cfg)
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("shake hands: %w: check tls", err), nc.Close())
		}
		nc = tc
	}
	c := &conn{address: address, clientID: d.cfg.ClientID, nc: nc, reader: bufio.NewReaderSize(nc, 4<<10), answers: make(chan protocol.Message, 1), dead: make(chan struct{})}
	c.late = time.AfterFunc(time.Hour, func() {
		c.overdue.Store(true)
		_ = c.nc.Close()
	})
	c.late.Stop()
	go c.read()
	if err := d.greet(ctx, c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// greet finds out what the broker speaks, and authenticates.
func (d *dialer) greet(ctx context.Context, c *conn) error {
	answer, err := c.roundTrip(ctx, new(apiversions.Request))
	if err != nil {
		if d.tls == nil {
			return fmt.Errorf("%w: does this listener expect TLS? Then set tls: {}", err)
		}
		return err
	}
	r := answer.(*apiversions.Response)
	if r.ErrorCode != 0 {
		return fmt.Errorf("ask for versions: %w", kafkago.Error(r.ErrorCode))
	}
	c.versions = make(map[protocol.ApiKey]int16, len(r.ApiKeys))
	for _, k := range r.ApiKeys {
		key := protocol.ApiKey(k.ApiKey)
		if version := key.SelectVersion(k.MinVersion, k.MaxVersion); version >= k.MinVersion && version <= k.MaxVersion {
			c.versions[key] = version
		}
	}
	if d.cfg.SASL == nil {
		return nil
	}
	return authenticate(ctx, c, *d.cfg.SASL)
}

// hint is a fix for a broker that hangs up on the first request.
func (d *dialer) hint(err error) string {
	if d.cfg.SASL == nil && errors.Is(err, io.EOF) {
		return ": does this listener expect SASL? Then set sasl"
	}
	return ""
}

// expireAfter notes that the broker ends the session after that many milliseconds; 0 is never.
func (c *conn) expireAfter(lifetime int64) {
	if lifetime > 0 {
		// Some of it is left for the last request.
		c.expires = time.Now().Add(time.Duration(lifetime) * time.Millisecond * 3 / 4)
	}
}

// alive reports whether a connection that was idle can be used at that time.
func (c *conn) alive(now time.Time) bool {
	select {
	case <-c.dead:
		return false
	default:
	}
	return now.Sub(c.idleSince) < maxIdle && (c.expires.IsZero() || now.Before(c.expires))
}

// close ends the connection and its reader.
func (c *conn) close() error {
	err := c.nc.Close()
	<-c.dead
	// That it ended before, or with an unanswered goodbye, is what close is for.
	if errors.Is(err, net.ErrClosed) || c.err != nil {
		return nil
	}
	return err
}

// read reads answers until the connection ends. That it always waits for something is how the death of an idle
// connection is noticed before a request is wasted on it.
func (c *conn) read() {
	defer close(c.dead)
	for c.err == nil {
		c.err = c.readOne()
	}
}

func (c *conn) readOne() (err error) {
	defer func() {
		// The library's decoder is made for brokers that do not lie.
		if r := recover(); r != nil {
			err = fmt.Errorf("decode answer: %v", r)
		}
	}()
	// The length and the correlation: a peer that speaks something else is found out before its bytes are taken for
	// lengths of lists.
	header, err := c.reader.Peek(8)
	if len(header) == 0 {
		return err
	}
	c.mu.Lock()
	waiting, asked := c.waiting, c.asked
	c.waiting = false
	c.mu.Unlock()
	switch {
	case bytes.HasPrefix(header, []byte{21, 3}):
		return errors.New("the peer answers in TLS")
	case err != nil:
		return fmt.Errorf("the peer does not speak Kafka's protocol, or broke off: %w", err)
	case !waiting:
		return errors.New("the broker answers what was not asked")
	case binary.BigEndian.Uint32(header) > answerBound(asked.key) || binary.BigEndian.Uint32(header) < 4:
		return fmt.Errorf("the peer does not speak Kafka's protocol: it announces %d bytes", binary.BigEndian.Uint32(header))
	case binary.BigEndian.Uint32(header[4:]) != uint32(asked.correlation):
		return fmt.Errorf("the broker answers request %d instead of %d", binary.BigEndian.Uint32(header[4:]), asked.correlation)
	}
	frame, err := c.frame(4 + int(binary.BigEndian.Uint32(header)))
	if err != nil {
		return fmt.Errorf("read answer: %w", unexpected(err))
	}
	message, err := decode(asked, frame)
	if err != nil {
		return err
	}
	c.answers <- message
	return nil
}

// frame reads so many bytes, which are valid until the next read.
func (c *conn) frame(size int) ([]byte, error) {
	if size <= c.reader.Size() {
		frame, err := c.reader.Peek(size)
		if err == nil {
			_, err = c.reader.Discard(size)
		}
		return frame, err
	}
	// A copy that grows with what arrives: what is announced need not come.
	var frame bytes.Buffer
	_, err := io.CopyN(&frame, c.reader, int64(size))
	return frame.Bytes(), err
}

// decode reads an answer, with its length and correlation.
func decode(of call, frame []byte) (message protocol.Message, err error) {
	if of.key == protocol.Produce {
		if message, err = readAppended(of.version, frame[8:]); err != nil {
			return nil, fmt.Errorf("read answer: %w", err)
		}
		return message, nil
	}
	if err := checkAnswer(of.key, of.version, frame[8:]); err != nil {
		return nil, fmt.Errorf("the peer does not speak Kafka's protocol: %w", err)
	}
	if _, message, err = protocol.ReadResponse(bytes.NewReader(frame), of.key, of.version); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return message, nil
}

// unexpected is the end of a connection within an answer.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// version is the highest version of a request that both sides speak.
func (c *conn) version(key protocol.ApiKey) (int16, error) {
	if key == protocol.ApiVersions {
		return 0, nil
	}
	version, ok := c.versions[key]
	if !ok {
		return 0, sink.Misconfigured(fmt.Errorf("broker %s has no version of the request %v that the relay speaks: use Kafka 1.0 or later",
			c.address, key))
	}
	return version, nil
}

// roundTrip sends a request of the library and returns the answer. After an error the connection is closed.
func (c *conn) roundTrip(ctx context.Context, m protocol.Message) (protocol.Message, error) {
	version, err := c.version(m.ApiKey())
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.correlation++
	var request bytes.Buffer
	if err := protocol.WriteRequest(&request, version, c.correlation, c.clientID, m); err != nil {
		return nil, errors.Join(fmt.Errorf("encode request %v: %w", m.ApiKey(), err), c.close())
	}
	answer, _, err := c.exchange(ctx, 0, m.ApiKey(), version, request.Bytes())
	return answer, err
}

// exchange writes a request with the present correlation and waits for its answer. sent says that all of the request
// was written: until then the broker cannot act on it, afterwards it may have, whatever the error. After an error the
// connection is dead. A timeout of 0 is none; the error behind a timeout is errTimeout.
func (c *conn) exchange(ctx context.Context, timeout time.Duration, key protocol.ApiKey, version int16, request []byte) (answer protocol.Message, sent bool, err error) {
	c.mu.Lock()
	c.waiting, c.asked = true, call{key: key, version: version, correlation: c.correlation}
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	if timeout > 0 {
		c.late.Reset(timeout) // a context of its own would cost each request more than the timer does
	}
	defer func() {
		inTime := timeout == 0 || c.late.Stop()
		if !stop() || !inTime {
			c.expires = time.Unix(0, 0) // Closed behind an answer that was in time.
		}
	}()
	if _, err := c.nc.Write(request); err != nil {
		return nil, false, c.ended(ctx, err)
	}
	select {
	case answer = <-c.answers:
		return answer, true, nil
	case <-c.dead:
	}
	// Both may be there: the reader goes on after an answer.
	select {
	case answer = <-c.answers:
		return answer, true, nil
	default:
		return nil, true, c.ended(ctx, c.err)
	}
}

// ended closes the connection, and returns what ended it.
func (c *conn) ended(ctx context.Context, err error) error {
	_ = c.close()
	switch {
	case c.overdue.Load():
		return errTimeout
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}
