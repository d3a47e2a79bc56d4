// Package http is a sink that sends messages to an HTTP endpoint by POST.
//
// # Formats
//
//   - array: the body is a JSON array of the payloads: a payload that is JSON stands in it byte for byte, other text as
//     a string, other bytes as {"base64":…}, and a NULL as null. The headers tailbox-ids and tailbox-positions list the
//     messages' ids and positions, separated by commas, and tailbox-source names the pipeline.
//   - single: the body is the payload untouched. The headers are id, the router's placements, the application's own, the
//     five tailbox-*, and Idempotency-Key: the message's own idempotency key, else sink.UniqueID, as a structured-field string.
//     The content type is the message's, else application/json or application/octet-stream by the look of the payload.
//   - cloudevents: one CloudEvent in structured mode, with the headers of single.
//   - cloudevents-batch: a JSON array of CloudEvents.
//
// In the values of id and tailbox-* headers, and in these lists, control characters, % and spaces at either end are
// written as %XX, and so are commas in the lists. An application's own header that HTTP cannot carry (a line break
// in its value, a space in its name) makes a single delivery permanent; headers that belong to the connection (Host,
// Content-Length, Transfer-Encoding, Connection and such) are left out.
//
// # Answers
//
// Only a 2xx status is a success; redirects are not followed. A request is answered as a whole by its status, unless the
// configuration says results: then the body is {"results":[{"id":…,"status":"delivered|retry|rejected","error":…}]},
// matched by id or else by index; what it leaves out is tried again.
//
// A request that failed before its first byte was written is unreachable. One that was written and not answered is
// unavailable: the endpoint may have accepted it, so the next attempt may be a duplicate, with the same id. The sink never
// sends a request twice by itself. It speaks HTTP/1.1 alone, where one connection carries one request at a time, and
// it is known what became of each.
package http

import (
	"context"
	"fmt"
	nethttp "net/http"
	"net/url"
	"sync"

	"github.com/tailbox/tailbox/sink"
)

// A Sink sends messages to one URL. It is made by New.
type Sink struct {
	cfg       Config
	url       *url.URL
	host      string
	target    string
	fixed     nethttp.Header
	pass      map[string]bool // canonical names of cfg.PassHeaders
	transport *nethttp.Transport
	bodies    sync.Pool
}

// New makes a Sink. It opens no connection.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	tlsConfig, err := cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg, url: u, target: target(u), transport: newTransport(cfg, tlsConfig)}
	s.fixed, s.host = cfg.fixed(u)
	s.pass = make(map[string]bool, len(cfg.PassHeaders))
	for _, name := range cfg.PassHeaders {
		s.pass[canonical(name)] = true
	}
	if s.host == "" {
		s.host = u.Host
	}
	u.User = nil
	s.bodies.New = func() any { return new([]byte) }
	return s, nil
}

// Limits implements sink.Sink. A lane has more than one delivery in a call only if the endpoint answers the call as a
// whole.
func (s *Sink) Limits() sink.Limits {
	l := sink.Limits{Batch: 1, Concurrency: s.cfg.Concurrency, Run: 1}
	if s.cfg.Format.batches() {
		l.Batch = s.cfg.MaxBatch
		l.Bytes = s.cfg.MaxBytes
		if !s.cfg.Results {
			l.Run = s.cfg.MaxBatch
		}
	}
	return l
}

// unattempted are the answers if those from one on are not tried any more.
func (s *Sink) unattempted(ctx context.Context, answers []error, from, n int) []error {
	if answers == nil {
		answers = make([]error, n)
	}
	err := sink.NotAttempted(fmt.Errorf("post to %s: %w", s.target, context.Cause(ctx)))
	for i := from; i < n; i++ {
		answers[i] = err
	}
	return answers
}

// Deliver implements sink.Sink. It sends one request, or several one after the other where one cannot hold ds; after the
// first that fails, the rest is not attempted.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	var answers []error
	for at := 0; at < len(ds); {
		if ctx.Err() != nil { // to make a request takes time, too
			return s.unattempted(ctx, answers, at, len(ds))
		}
		r, err := s.newRequest(ds[at:])
		var results []error
		if err == nil {
			results, err = s.send(ctx, r, ds[at:at+r.count])
		} else {
			r.count = 1
		}
		next := at + r.count
		if err == nil && results == nil {
			at = next
			continue
		}
		if answers == nil {
			answers = make([]error, len(ds))
		}
		if err == nil {
			// Answered one by one: the lanes of a call have one delivery each, so the next request may follow.
			copy(answers[at:next], results)
			at = next
			continue
		}
		// Any of them may be the cause, even of a refusal: a firewall looks at bodies.
		if class, _, _ := sink.Classify(err); r.count > 1 && class != sink.ClassThrottled && class != sink.ClassNotAttempted {
			err = sink.Whole(err)
		}
		for i := at; i < len(ds); i++ {
			answers[i] = err
			if i >= next {
				answers[i] = sink.ErrNotAttempted
			}
		}
		return answers
	}
	return answers
}

// Check implements sink.Checker: it connects, and shakes hands where the URL is https, but sends nothing.
func (s *Sink) Check(ctx context.Context) []error {
	return sink.AppendProblem(s.check(ctx), s.cfg.plaintext())
}

func (s *Sink) check(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return []error{fmt.Errorf("connect to %s: %w: check the sink's url, the network, and tls where it is https", s.target, err)}
	}
	if err := conn.Close(); err != nil {
		return []error{fmt.Errorf("connect to %s: %w", s.target, err)}
	}
	return nil
}

// Close implements sink.Sink.
func (s *Sink) Close(context.Context) error {
	s.transport.CloseIdleConnections()
	return nil
}
