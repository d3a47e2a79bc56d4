package http

import (
	"context"
	"io"
	nethttp "net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// request is a body and headers for the first count of the deliveries it was made of.
type request struct {
	header nethttp.Header
	body   io.ReadCloser
	size   int // of the body
	count  int
}

// send sends r, whose deliveries are ds. It returns an error about all of them, or one answer each where the endpoint
// gives such, nil meaning that all were delivered.
func (s *Sink) send(ctx context.Context, r request, ds []*sink.Delivery) (results []error, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errTimeout)
	defer cancel()
	watched := new(attempt)
	req := (&nethttp.Request{
		Method: nethttp.MethodPost, URL: s.url, Host: s.host, Header: r.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// There is no GetBody, so that the transport cannot send a request a second time.
		Body: r.body, ContentLength: int64(r.size),
	}).WithContext(watched.watch(ctx))
	if req.ContentLength == 0 {
		req.Body = nethttp.NoBody
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return nil, s.failed(ctx, watched, err)
	}
	// The outcome is known by then: what becomes of the connection is no fault of the message.
	defer resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode < 300 && s.cfg.Results {
		return s.readResults(ctx, resp, ds)
	}
	text := drain(resp, cancel)
	if err = s.answer(resp, text); err == nil {
		receipts(ds, resp.StatusCode, text)
	}
	return nil, err
}

// receipts notes what the endpoint answered to all deliveries of a request.
func receipts(ds []*sink.Delivery, code int, text string) {
	var receipt string
	for _, d := range ds {
		if d.Receipt == nil {
			continue
		}
		if receipt == "" {
			receipt = strconv.Itoa(code)
			if text = strings.Join(strings.Fields(text), " "); text != "" {
				receipt += " " + text
			}
		}
		d.Receipt.Set(receipt)
	}
}

const (
	// maxRead is how much is read of an answer for an error or a receipt.
	maxRead = 1000
	// maxDrain and drainTime are how much, and how long, is read of an answer that matters no more, so that its connection
	// can be used again.
	maxDrain  = 64 << 10
	drainTime = time.Second
)

// drain reads the rest of a response within bounds, and returns its beginning.
func drain(resp *nethttp.Response, cancel context.CancelFunc) string {
	if resp.ContentLength == 0 {
		return ""
	}
	// The status is the answer: an endpoint that takes its time with the body holds nobody up.
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	text := make([]byte, maxRead)
	n, err := io.ReadFull(resp.Body, text)
	if err == nil {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
	return string(text[:n])
}
