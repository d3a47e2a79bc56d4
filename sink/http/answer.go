package http

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	nethttp "net/http"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// answer is what a status means for all messages of a request. text is the beginning of the body.
func (s *Sink) answer(resp *nethttp.Response, text string) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	err := fmt.Errorf("post to %s: answered %d %s", s.target, code, nethttp.StatusText(code))
	if line := sink.OneLine(text); line != "" {
		err = fmt.Errorf("%w: %s", err, line)
	}
	wait, asked := sink.RetryAfter(resp.Header.Get("Retry-After"), time.Now())
	if fix := operatorFix(code, text); fix != "" {
		return sink.Misconfigured(fmt.Errorf("%w: %s", err, fix))
	}
	switch {
	case code >= 300 && code < 400:
		return sink.Misconfigured(fmt.Errorf("%w: %s", err, redirected(resp)))
	case code == 429, code == 503 && asked:
		return sink.Throttled(err, wait)
	case code == 408, code >= 502 && code <= 504, behindCloudflare(code):
		return sink.Unavailable(err)
	case code == 409 || code == 425:
		return sink.Rejected(err)
	case code >= 400 && code < 500:
		return sink.Permanent(err)
	}
	return sink.Rejected(err)
}

// operatorFix returns the fix for an answer that is about the address, the connection or the account, "" for any other. Such an answer meets every
// request: if it counted as the message's fault, a whole backlog would die of it.
func operatorFix(code int, text string) string {
	switch code {
	case 400:
		return frontFix(text)
	case 401, 403:
		return "check bearer, headers and tls"
	case 402:
		return "check the account at the endpoint: it may be blocked or unpaid"
	case 404, 405, 410:
		return "check url"
	case 407:
		return "check HTTP_PROXY and HTTPS_PROXY in the environment"
	case 421:
		return "the server does not serve this name over this connection: check url, tls.server_name, and a header Host in headers"
	case 423, 424:
		return "the endpoint's own resource is locked, or something that it depends on failed: check the endpoint"
	case 426:
		return "the server wants another protocol: check url, and whether it has to begin with https"
	}
	return ""
}

const (
	certificateFix = "the server does not accept the client's certificate: check tls.cert and tls.key"
	plainFix       = "the server expects TLS: check url, which has to begin with https"
)

// frontFix returns the fix for a 400 that a web server gives before it looks at the request, "" for any other 400. Some servers do not end the
// handshake if the client's certificate is expired or missing: they answer 400 to all that follows. frontFix compares how the whole answer
// begins, since an endpoint that repeats a part of the message in its own 400 must not pass for such a server.
func frontFix(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ begins, fix string }{
		{"<html> <head><title>400 The SSL certificate error</title>", certificateFix},               // nginx
		{"<html> <head><title>400 No required SSL certificate was sent</title>", certificateFix},    // nginx
		{"<html> <head><title>400 The plain HTTP request was sent to HTTPS port</title>", plainFix}, // nginx
		{`<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN"> <html><head> <title>400 Bad Request</title> </head><body> <h1>Bad Request</h1> ` +
			"<p>Your browser sent a request that this server could not understand.<br /> " +
			"Reason: You're speaking plain HTTP to an SSL-enabled server port.", plainFix}, // Apache
	} {
		if strings.HasPrefix(text, known.begins) {
			return known.fix
		}
	}
	if text == "Client sent an HTTP request to an HTTPS server." { // Go
		return plainFix
	}
	return ""
}

// behindCloudflare reports whether a status is one that Cloudflare gives if the server behind it is down, slow, or out of reach.
func behindCloudflare(code int) bool { return code >= 520 && code <= 527 || code == 530 }

// redirected is the fix for an answer that names another address, or should.
func redirected(resp *nethttp.Response) string {
	to, err := resp.Location() // relative to the address that was asked
	if err != nil {
		return "only 2xx is a success, and no other address is named: check url"
	}
	return fmt.Sprintf("redirects are not followed: set url to the final address, which the header Location names, at %s", sink.OneLine(target(to)))
}

// resultsMost bytes, and resultMost for each message, are read of the body of an endpoint that answers each message: many requests
// are in flight at once, and the bound on memory does not know of their answers.
const (
	resultsMost = 256 << 10
	resultMost  = 4 << 10
)

// readResults reads the answers to ds one by one.
func (s *Sink) readResults(ctx context.Context, resp *nethttp.Response, ds []*sink.Delivery) ([]error, error) {
	most := resultsMost + resultMost*len(ds)
	text, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, sink.Unavailable(fmt.Errorf("post to %s: read results (possible duplicate: the endpoint may have accepted some): %w", s.target, err))
	}
	if len(text) > most {
		return nil, sink.Rejected(fmt.Errorf("post to %s: the results of %d messages are more than %d bytes (possible duplicate: the "+
			"endpoint may have accepted some): shorten what it says of each", s.target, len(ds), most))
	}
	var parsed struct {
		Results []result `json:"results"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil || parsed.Results == nil {
		return nil, sink.Misconfigured(fmt.Errorf("post to %s: the sink has results: true, but the answer %d is no "+
			`{"results":[…]}: %s: change the endpoint, or set results to false`, s.target, resp.StatusCode, sink.OneLine(string(text))))
	}
	return s.match(parsed.Results, ds), nil
}

// result is what an endpoint says about one message.
type result struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Error  string `json:"error"`
	// Receipt is what the endpoint has to say about a message that it took.
	Receipt string `json:"receipt"`
}

// match finds the result of each of ds, by id where the result has one, else by index. It returns nil if all were
// delivered.
func (s *Sink) match(results []result, ds []*sink.Delivery) []error {
	answers := make([]error, len(ds))
	leftOut := sink.Rejected(fmt.Errorf("post to %s: left out of the results", s.target))
	for i := range answers {
		answers[i] = leftOut
	}
	places := make(map[string][]int, len(ds))
	for i, d := range ds {
		places[d.Message.ID] = append(places[d.Message.ID], i)
	}
	good := 0
	for i, r := range results {
		if r.ID != "" {
			// Two messages of one request may have the same id, when they come from two tables.
			p := places[r.ID]
			if len(p) == 0 {
				continue
			}
			i, places[r.ID] = p[0], p[1:]
		} else if i >= len(ds) {
			break
		}
		if answers[i] = s.judge(r); answers[i] == nil {
			good++
			if d := ds[i]; d.Receipt != nil {
				d.Receipt.Set(strings.TrimSpace(r.Status + " " + r.Receipt))
			}
		}
	}
	if good == len(ds) {
		return nil
	}
	return answers
}

func (s *Sink) judge(r result) error {
	err := fmt.Errorf("post to %s: answered %q: %s", s.target, sink.OneLine(r.Status), sink.OneLine(r.Error))
	switch r.Status {
	case "delivered":
		return nil
	case "rejected":
		return sink.Permanent(err)
	case "retry":
		return sink.Rejected(err)
	}
	return sink.Rejected(fmt.Errorf("%w (want delivered, retry or rejected)", err))
}
