// Package smtp is a sink that sends a mail a message, by SMTP.
//
// # Mails
//
// A payload that is a JSON object gives the mail's parts: to, cc, bcc, reply_to (a text, or a list of texts), subject,
// text or body, html, and attachments. The configuration may take each from elsewhere: another member of the payload, a
// header, a column of the message, or a text that is always the same. With raw a message whose content type is message/rfc822 is
// the mail itself.
//
// Message-ID is made of the message's id, and Date is the time of writing, so that they are the same at each attempt.
// The headers X-Tailbox-* carry what the relay knows of the message, with what is not visible ASCII as %XX.
//
// # Order and duplicates
//
// The mails of a call go over one connection, one after the other; connections are kept for the next call. A mail is
// delivered when the server has answered 250 to its end, whatever becomes of the connection afterwards. It goes to all of
// its recipients or to none. When the connection ends before, the mail was not accepted; when it ends between the mail's
// last byte and the answer, nobody can tell, and the mail is sent again, with the same Message-ID. When the answer only takes
// long, the mail's next attempt asks for it instead.
package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"sync"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// A Sink sends to one server. It is made by New.
type Sink struct {
	cfg  Config
	tls  *tls.Config
	host string
	from mail.Address
	// envelope is where bounces go, in angle brackets; domain is what Message-IDs end with.
	envelope string
	domain   string
	parts    parts
	// longestEnd is how long the server may take to answer a whole mail.
	longestEnd time.Duration
	endings    endings

	mu   sync.Mutex
	idle []*session // the last used last
	shut bool
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
	host, _, err := net.SplitHostPort(cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if tlsConfig.ServerName == "" {
		tlsConfig.ServerName = host
	}
	from, err := mail.ParseAddress(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	envelope := from
	if cfg.EnvelopeFrom != "" {
		if envelope, err = mail.ParseAddress(cfg.EnvelopeFrom); err != nil {
			return nil, fmt.Errorf("envelope_from: %w", err)
		}
	}
	s := &Sink{cfg: cfg, tls: tlsConfig, host: host, from: *from, envelope: bare(envelope), domain: domainOf(from.Address), longestEnd: max(longestEnd, cfg.Timeout)}
	s.endings.sink = s
	if s.parts, err = newParts(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// Limits implements sink.Sink. The mails of a call are sent one by one, so that a run may fill it.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: s.cfg.MaxBatch, Bytes: s.cfg.MaxBytes, Concurrency: s.cfg.Concurrency, Run: s.cfg.MaxBatch}
}

// Deliver implements sink.Sink.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	var answers []error
	answer := func(i int, err error) {
		if answers == nil {
			answers = make([]error, len(ds))
		}
		answers[i] = err
	}
	b := &batch{sink: s, began: time.Now()}
	defer b.end()
	failed, group := false, ""
	for i, d := range ds {
		if failed && d.Message.Group != "" && d.Message.Group == group {
			answer(i, sink.ErrNotAttempted)
			continue
		}
		err := b.deliver(ctx, d)
		if err != nil {
			answer(i, err)
			failed, group = true, d.Message.Group
		}
		if b.over || time.Since(b.began) >= longestCall {
			for rest := i + 1; rest < len(ds); rest++ {
				answer(rest, sink.ErrNotAttempted)
			}
			break
		}
	}
	return answers
}

// batch is one call. Its session is taken when the first mail is ready.
type batch struct {
	sink    *Sink
	session *session
	// over: what failed is not the mail's own affair, so that no further one is tried.
	over  bool
	began time.Time
}

// longestCall is how long a call goes on with further mails: those that were accepted are not settled before it ends, and a
// crash would repeat them.
const longestCall = 5 * time.Second

// deliver sends one mail.
func (b *batch) deliver(ctx context.Context, d *sink.Delivery) error {
	l, err := b.sink.letter(d)
	if err != nil {
		return sink.Permanent(err)
	}
	if e := b.sink.endings.claim(d, l); e != nil {
		return b.settle(ctx, e, d, l)
	}
	if err := b.connect(ctx); err != nil {
		b.over = true
		return err
	}
	conn := b.session.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	e, usable, err := b.session.send(l, b.sink.cfg.Timeout, b.sink.longestEnd)
	cut := !stop()
	if e != nil {
		b.session = nil // until the answer is there
		return b.settle(ctx, e, d, l)
	}
	if !usable || cut {
		b.drop()
	}
	b.note(usable && !cut, err)
	if class, _, _ := sink.Classify(err); cut && class == sink.ClassUnreachable {
		return sink.NotAttempted(fmt.Errorf("send to %s: %w", b.sink.cfg.Address, context.Cause(ctx)))
	}
	return err
}

// connect sees to it that the call has a session that is ready for a mail.
func (b *batch) connect(ctx context.Context) (err error) {
	if b.session != nil && b.session.sent >= b.sink.cfg.MaxPerConnection {
		b.session.end()
		b.session = nil
	}
	if b.session != nil {
		if b.session.fresh(ctx, b.sink.cfg.ConnectTimeout) {
			return nil
		}
		// What was sent before is accepted and answered; the server went away afterwards.
		b.drop()
	}
	b.session, err = b.sink.session(ctx)
	return err
}

// settle waits for the answer to a whole mail, and takes its session for the next mail.
func (b *batch) settle(ctx context.Context, e *ending, d *sink.Delivery, l *letter) error {
	if e.parted { // the answer came between the calls
		_, err := e.answer(l, d.Receipt)
		b.note(true, err)
		return err
	}
	s := b.sink
	if !s.endings.wait(ctx, e) {
		if s.endings.keep(e, d, l) {
			b.over = true
			return sink.Unavailable(fmt.Errorf("send to %s: no answer to the mail for %v: tailbox sends it again only if there is none after %v",
				e.session.address, time.Since(e.began).Round(time.Millisecond), s.longestEnd))
		}
		_ = e.session.conn.Close() // The answer may still have come: that decides.
		<-e.done
	}
	usable, err := e.answer(l, d.Receipt)
	usable = usable && ctx.Err() == nil
	switch {
	case !usable:
		_ = e.session.conn.Close() // It is given up: nothing depends on how it ends.
	case b.session == nil:
		b.session = e.session
	default:
		s.put(e.session)
	}
	b.note(usable, err)
	return err
}

// note ends the call after a failure that is not the mail's own affair.
func (b *batch) note(usable bool, err error) {
	if err == nil {
		return
	}
	switch class, _, _ := sink.Classify(err); class {
	case sink.ClassMisconfigured, sink.ClassThrottled, sink.ClassUnavailable:
		b.over = true
	default:
		b.over = !usable
	}
}

// drop gives a session up.
func (b *batch) drop() {
	_ = b.session.conn.Close() // Nothing depends on how it ends.
	b.session = nil
}

// end gives the session back.
func (b *batch) end() {
	if b.session != nil {
		b.sink.put(b.session)
	}
}

// session returns a connection that is ready for a mail, an idle one if there is any. Its errors have a class.
func (s *Sink) session(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, sink.NotAttempted(fmt.Errorf("connect to %s: %w", s.cfg.Address, context.Cause(ctx)))
	}
	for {
		s.mu.Lock()
		n := len(s.idle)
		if n == 0 {
			s.mu.Unlock()
			return s.connect(ctx)
		}
		last := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		if time.Since(last.idle) >= s.cfg.IdleTimeout {
			last.end()
			continue
		}
		if last.fresh(ctx, s.cfg.ConnectTimeout) {
			return last, nil
		}
		_ = last.conn.Close() // It is dead: nothing depends on how it ends.
		if ctx.Err() != nil {
			return nil, sink.NotAttempted(fmt.Errorf("connect to %s: %w", s.cfg.Address, context.Cause(ctx)))
		}
	}
}

// put keeps a session for the next call. Those that nobody has used for long end then.
func (s *Sink) put(used *session) {
	used.idle = time.Now()
	var old []*session
	s.mu.Lock()
	for len(s.idle) > 0 && time.Since(s.idle[0].idle) >= s.cfg.IdleTimeout {
		old = append(old, s.idle[0])
		s.idle = s.idle[1:]
	}
	if s.shut || used.sent >= s.cfg.MaxPerConnection {
		old = append(old, used)
	} else {
		s.idle = append(s.idle, used)
	}
	s.mu.Unlock()
	for _, one := range old {
		one.end()
	}
}

// Check implements sink.Checker: it connects as for a mail, authenticates, and says which sender it would use, but sends
// nothing.
func (s *Sink) Check(ctx context.Context) []error {
	ss, err := s.connect(ctx)
	if err != nil {
		if class, _, _ := sink.Classify(err); class != sink.ClassMisconfigured {
			err = fmt.Errorf("%w: check address, security and the network", err)
		}
		return []error{err}
	}
	defer ss.end()
	if err := ss.conn.SetDeadline(time.Now().Add(s.cfg.ConnectTimeout)); err != nil {
		return []error{fmt.Errorf("ask %s: %w", s.cfg.Address, err)}
	}
	fixed := s.fixed()
	if err := ss.readable(fixed); err != nil {
		return []error{err}
	}
	if err := ss.from(fixed); err != nil {
		_, err = ss.refused("MAIL FROM", err, refusedSender, nil)
		return []error{err}
	}
	if err := ss.client.Reset(); err != nil {
		return []error{fmt.Errorf("ask %s: RSET: %w", s.cfg.Address, err)}
	}
	return nil
}

// Close implements sink.Sink.
func (s *Sink) Close(context.Context) error {
	s.mu.Lock()
	s.shut = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	s.endings.close()
	var ending sync.WaitGroup
	for _, one := range idle {
		ending.Go(one.end)
	}
	ending.Wait()
	return nil
}

var errNoRecipient = errors.New("the mail has no recipient")
