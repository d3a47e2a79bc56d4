// Package nats is a sink that publishes to streams of NATS JetStream, nats-server 2.2 and later.
//
// A message's topic is its subject, its payload the data, byte for byte; a NULL is empty. Headers are the delivery's,
// in no order, which NATS does not keep; tailbox-key carries the key. In the relay's own headers control characters, %
// and spaces at either end are %XX. Headers of the application that begin with Nats- are left out: they tell the
// server what to do.
//
// A message is delivered when its stream has answered that it is stored. Nats-Msg-Id lets the stream drop what it has
// already, within its duplicate window: such an answer is a success too.
//
// # Order
//
// A call publishes the first message of many lanes at once, and waits for each answer; of one lane it never has more
// than one under way, because a stream that refuses one message may take the next. Nothing is sent behind the relay's
// back: the library neither sends again nor keeps what it could not write.
//
// # Errors
//
// No connection: unreachable. A stream without a leader: unavailable. Published, and no answer: unavailable, perhaps a duplicate. No stream for
// a subject, or no permission: misconfigured, that subject alone. A message that is too large, or whose subject or headers NATS cannot
// carry: permanent. A stream that is full and discards new messages: throttled.
package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tailbox/tailbox/sink"
)

// A Sink publishes to one cluster. It is made by New.
type Sink struct {
	cfg     Config
	tls     *tls.Config
	current atomic.Pointer[conn]
	// dialing holds one token while somebody connects.
	dialing  chan struct{}
	subjects *sink.Names
}

// New makes a Sink. It opens no connection.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	tlsConfig, err := cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	return &Sink{cfg: cfg, tls: tlsConfig, dialing: make(chan struct{}, 1), subjects: sink.NewNames("(other subjects)")}, nil
}

func (s *Sink) shuffle(all []string) {
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

// Limits implements sink.Sink. A stream may refuse one message and take the next, so that a run is one message.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: s.cfg.MaxBatch, Bytes: s.cfg.MaxBytes, Concurrency: s.cfg.Concurrency, Run: 1, Topic: subjectRule{s.cfg.InboxPrefix}}
}

// Destination implements sink.Destinations.
func (s *Sink) Destination(d *sink.Delivery) sink.Destination {
	return s.subjects.Destination(d.Topic)
}

// errTimeout is the cause of a call's end that the configuration's timeout brought about.
var errTimeout = errors.New("timeout")

// Deliver implements sink.Sink.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	if len(ds) == 0 {
		return nil
	}
	answers := make([]error, len(ds))
	if err := s.deliver(ctx, ds, answers); err != nil {
		for i := range answers {
			answers[i] = err
		}
		return answers
	}
	for _, err := range answers {
		if err != nil {
			return answers
		}
	}
	return nil
}

// deliver fills in the answers, or returns one for all.
func (s *Sink) deliver(ctx context.Context, ds []*sink.Delivery, answers []error) error {
	if ctx.Err() != nil {
		return sink.NotAttempted(fmt.Errorf("publish: %w", context.Cause(ctx)))
	}
	c, err := s.connection(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errTimeout)
	defer cancel()
	sent := make([]publication, 0, len(ds))
	for i, d := range ds {
		sent = append(sent, publication{at: i, d: d})
	}
	wait := leaderWait
	for try := 1; ; try++ {
		silent := s.publish(ctx, c, sent, answers)
		if len(silent) == 0 {
			return nil
		}
		sent = s.lookup(ctx, c, silent, answers)
		if len(sent) == 0 || try == leaderTries || !pause(ctx, wait) {
			return nil
		}
		wait *= 2
	}
}

const (
	// A stream whose leader has just moved answers nobody for a moment: its messages are published again leaderWait later, then after
	// twice that, and so on.
	leaderWait  = 50 * time.Millisecond
	leaderTries = 4
)

// publication is one message under way. It does not hold what went over the wire: that is made anew if the message is published again.
type publication struct {
	at     int // in the call
	d      *sink.Delivery
	future jetstream.PubAckFuture // while its answer is awaited
}

// start writes a message. What is larger than the server takes is refused before the library sees it: the library would refuse it too, and keep it
// in memory until the answer's timeout.
func (c *conn) start(m *natsgo.Msg) (jetstream.PubAckFuture, error) {
	if int64(len(m.Data)+headerSize(m.Header)) > c.nc.MaxPayload() {
		return nil, natsgo.ErrMaxPayload
	}
	return c.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
}

// headerSize is how many bytes headers are on the wire: a line for the version, one for each value, and an empty one.
func headerSize(h natsgo.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(strings.TrimSpace(value)) + len(": \r\n")
		}
	}
	return n
}

// publish publishes all of ps and waits for what the server says to each. It returns those that no stream answered,
// whose answers it has filled in as well.
func (s *Sink) publish(ctx context.Context, c *conn, ps []publication, answers []error) (silent []publication) {
	ps, messages := s.messages(ps, answers)
	// A server that does not read makes a write hang, with the library's locks held.
	stop := context.AfterFunc(ctx, c.cut)
	subjects := make([]string, len(ps))
	for i, p := range ps {
		subjects[i] = p.d.Topic
	}
	c.expect(subjects...)
	defer c.forget(subjects...)
	broken := error(nil)
	sent := ps[:0:0]
	for i, p := range ps {
		if broken != nil {
			answers[p.at] = broken
			continue
		}
		if deaf := c.orDeaf(nil); deaf != nil {
			answers[p.at] = deaf
			continue
		}
		future, err := c.start(messages[i])
		if err == nil {
			p.future = future
			sent = append(sent, p)
			continue
		}
		err = c.orDeaf(refused(p.d.Topic, err))
		answers[p.at] = err
		if class, _, _ := sink.Classify(err); class == sink.ClassUnreachable {
			// What the library had not written yet may be lost to it: nothing more can be known from this connection.
			broken = err
			c.cut()
		}
	}
	stop()
	for i, p := range sent {
		err := c.await(ctx, p)
		if err != nil {
			err = c.orDeaf(err)
		}
		answers[p.at] = err
		sent[i].future, p.future = nil, nil // it holds the message
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			silent = append(silent, p)
		}
	}
	return silent
}

// messages makes what goes over the wire. It returns the publications that NATS can carry, and fills in the answers of the others.
func (s *Sink) messages(ps []publication, answers []error) (fit []publication, messages []*natsgo.Msg) {
	fit, messages = make([]publication, 0, len(ps)), make([]*natsgo.Msg, 0, len(ps))
	for _, p := range ps {
		m, err := s.message(p.d)
		if err != nil {
			answers[p.at] = err
			continue
		}
		fit, messages = append(fit, p), append(messages, m)
	}
	return fit, messages
}

// await waits for what the server says to p.
func (c *conn) await(ctx context.Context, p publication) error {
	subject := p.d.Topic
	for {
		news, denial := c.denial(subject)
		select {
		case ack := <-p.future.Ok():
			return p.stored(ack)
		case err := <-p.future.Err():
			return refused(subject, err)
		default:
		}
		if denial != nil {
			return denial
		}
		select {
		case ack := <-p.future.Ok():
			return p.stored(ack)
		case err := <-p.future.Err():
			return refused(subject, err)
		case <-news:
		case <-c.closed:
			if err, known := p.known(); known {
				return err
			}
			return unanswered(subject, fmt.Errorf("the connection ended: %w", c.end()))
		case <-ctx.Done():
			if err, known := p.known(); known {
				return err
			}
			return unanswered(subject, context.Cause(ctx))
		}
	}
}

// stored notes where the message is.
func (p publication) stored(ack *jetstream.PubAck) error {
	if p.d.Receipt != nil {
		text := fmt.Sprintf("stream=%s seq=%d", ack.Stream, ack.Sequence)
		if ack.Duplicate {
			text += " duplicate"
		}
		p.d.Receipt.Set(text)
	}
	return nil
}

// known is the server's answer if it is there by now.
func (p publication) known() (err error, known bool) {
	select {
	case ack := <-p.future.Ok():
		return p.stored(ack), true
	case err := <-p.future.Err():
		return refused(p.d.Topic, err), true
	default:
		return nil, false
	}
}

// end is why the connection ended.
func (c *conn) end() error {
	if err := c.nc.LastError(); err != nil {
		return err
	}
	return errors.New("closed")
}

// pause waits, and reports whether ctx lived that long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close implements sink.Sink.
func (s *Sink) Close(context.Context) error {
	if c := s.current.Swap(nil); c != nil {
		c.nc.Close()
	}
	return nil
}
