package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// leastWait and mostWait bound the wait between two attempts to send a batch.
	leastWait, mostWait = time.Second, 30 * time.Second
	// flushTimeout bounds sending what waits when the relay stops.
	flushTimeout = 5 * time.Second
	// mostAnswer bounds what is read of a collector's answer.
	mostAnswer = 64 << 10
)

// An exporter sends batches to a collector. It belongs to the goroutine of Run.
type exporter struct {
	t               *Tracer
	client          *http.Client
	resource, scope []byte
	// failing: the last batch was not taken, and the log says so.
	failing bool
	// last: the relay has stopped, and no batch is tried twice.
	last bool
}

// Run sends spans until ctx ends, and then what still waits, in bounded time.
func (t *Tracer) Run(ctx context.Context) {
	x := t.exporter()
	defer x.client.CloseIdleConnections()
	tick := time.NewTicker(t.settings.delay)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			x.drain(ctx, 1)
		case <-t.wake:
			x.drain(ctx, t.settings.batch)
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	x.last = true
	x.drain(flush, 1)
	if n := t.waits(); n > 0 {
		x.lost(Dropped, n, errors.New("it did not take them before the relay stopped"))
	}
}

func (t *Tracer) exporter() *exporter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = t.settings.tls
	transport.MaxResponseHeaderBytes = mostAnswer
	x := &exporter{t: t, client: &http.Client{Transport: transport, Timeout: t.settings.timeout,
		// A collector that moved must not get the headers, which may hold secrets, somewhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	x.resource, x.scope = envelope(t.settings.resource, t.cfg.Version)
	return x
}

// drain sends batches while at least so many spans wait.
func (x *exporter) drain(ctx context.Context, least int) {
	for x.t.waits() >= least {
		batch := x.t.take()
		if !x.export(ctx, batch) && (x.last || ctx.Err() != nil) {
			return
		}
	}
}

// export sends a batch, again and again until it is taken, refused, or its time is over. It reports whether it was taken. If ctx ends before that, the batch waits
// again.
func (x *exporter) export(ctx context.Context, batch [][]byte) bool {
	s := x.t.settings
	body, err := x.body(batch)
	if err != nil {
		x.lost(Dropped, len(batch), err)
		return false
	}
	within, cancel := context.WithTimeout(ctx, s.exportTimeout)
	defer cancel()
	deadline, _ := within.Deadline()
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		refused, after, err := x.post(within, body)
		switch pause := max(after, wait/2+rand.N(wait/2)); { //nolint:gosec // Retries need no secret.
		case err == nil:
			x.taken(len(batch), refused)
			return true
		case after == noRetry:
			x.lost(Refused, len(batch), err)
			return false
		case ctx.Err() != nil:
			x.t.putBack(batch)
			return false
		case x.last, time.Until(deadline) <= pause:
			x.lost(Dropped, len(batch), err)
			return false
		default:
			x.complain(err)
			select {
			case <-within.Done(): // because ctx is done: the time was not over
			case <-time.After(pause):
			}
		}
	}
}

// body encodes a request.
func (x *exporter) body(batch [][]byte) ([]byte, error) {
	body := appendRequest(nil, x.resource, x.scope, batch)
	if !x.t.settings.gzip {
		return body, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(body)
	err = errors.Join(err, w.Close()) // which writes as well
	return b.Bytes(), err
}

// noRetry is the wait that post returns if the collector refuses a batch for good.
const noRetry time.Duration = -1

// post sends a request once. It returns how many spans the collector refused, or an error and how long to wait at least, or noRetry.
func (x *exporter) post(ctx context.Context, body []byte) (refused int, after time.Duration, err error) {
	s := x.t.settings
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return 0, noRetry, withoutURL(err)
	}
	req.Header = s.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "tailbox/"+x.t.cfg.Version)
	if s.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := x.client.Do(req)
	if err != nil {
		return 0, 0, withoutURL(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, retryAfter(resp.Header.Get("Retry-After"), time.Now()), fmt.Errorf("it answered %d", resp.StatusCode)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return 0, noRetry, fmt.Errorf("it answered %d: check OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS", resp.StatusCode)
	}
	if err != nil {
		return 0, 0, nil //nolint:nilerror // It took the spans: it said so before its answer was cut off.
	}
	return rejected(answer), 0, nil
}

// withoutURL takes the address, which may hold a secret, out of an error.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// retryAfter reads the header of that name, seconds or a date; 0 if it says nothing.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// taken notes that the collector took a batch, but for some spans.
func (x *exporter) taken(n, refused int) {
	refused = min(n, refused)
	if n > refused {
		x.t.cfg.Count(Sent, n-refused)
	}
	if refused > 0 {
		x.t.cfg.Count(Refused, refused)
		x.complain(errors.New("it took a part of the spans only"))
		return
	}
	if x.failing {
		x.failing = false
		x.t.cfg.Logger.Info("the collector takes spans again", "endpoint", x.t.settings.Endpoint())
	}
}

// lost notes that a batch is not sent.
func (x *exporter) lost(result string, n int, err error) {
	x.t.cfg.Count(result, n)
	x.complain(err)
}

// complain logs that the collector takes no spans, once until it does again.
func (x *exporter) complain(err error) {
	if !x.failing {
		x.failing = true
		x.t.cfg.Logger.Warn("the collector does not take spans: deliveries go on without", "endpoint", x.t.settings.Endpoint(), "error", err)
	}
}
