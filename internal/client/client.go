// Package client asks the HTTP API of a relay what the command line otherwise asks the database, so that an operator needs an address and a token
// instead of the configuration and the database's credentials.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// answerTime bounds the wait for one answer.
	answerTime = 30 * time.Second
	// mostAnswer bounds the size of an answer: that of a message whose payload is 32 MiB and stands in base64.
	mostAnswer = 64 << 20
	prefix     = "/api/v1"
)

// A Client asks one relay. It is safe for concurrent use.
type Client struct {
	base  *url.URL
	token string
	// file is where the token comes from.
	file string
	http *http.Client
}

// New returns a client of the relay at an address, such as https://relay.example:8480, with the token that a file holds. Go's variables SSL_CERT_FILE and
// HTTPS_PROXY apply.
func New(address, tokenFile string) (*Client, error) {
	base, err := url.Parse(strings.TrimSuffix(strings.TrimRight(address, "/"), prefix))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--server is no URL: write the address of the relay's admin.listen, such as http://127.0.0.1:8480")
	case base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "":
		return nil, fmt.Errorf("--server %q: write a URL with http:// or https://, such as http://127.0.0.1:8480", base.Redacted())
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("--server %q: write the address alone, without a user, a ? or a #: the token stands in --token-file", base.Redacted())
	}
	if tokenFile == "" {
		return nil, errors.New("--server needs a token: name the file that holds one with --token-file, or $TAILBOX_TOKEN_FILE")
	}
	text, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n\x00") {
		return nil, fmt.Errorf("--token-file %s: it must hold one token and nothing else", tokenFile)
	}
	return &Client{base: base, token: token, file: tokenFile, http: &http.Client{Timeout: answerTime,
		// The token is not for whoever the relay, or something before it, points to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// Exposed reports whether the token can be read on its way: it goes to another machine without TLS.
func (c *Client) Exposed() bool {
	if c.base.Scheme == "https" || c.base.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(c.base.Hostname())
	return ip == nil || !ip.IsLoopback()
}

// Address is that of the relay.
func (c *Client) Address() string { return c.base.String() }

func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.call(ctx, http.MethodGet, path, nil, into)
}

func (c *Client) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	return c.call(ctx, http.MethodPost, path, text, into)
}

func (c *Client) call(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.base.String()+prefix+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.Address(), err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer+1))
	switch {
	case err != nil:
		return c.unreachable(ctx, err)
	case len(text) > mostAnswer:
		return fmt.Errorf("ask %s: its answer is larger than %d MiB: ask for less", c.Address(), mostAnswer>>20)
	case answer.StatusCode >= http.StatusMultipleChoices:
		return c.problem(answer, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.errStranger()
	}
	return nil
}

func (c *Client) errStranger() error {
	return fmt.Errorf("ask %s: what answers there is no relay: is it the address of admin.listen?", c.Address())
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if whole, ok := errors.AsType[*url.Error](err); ok {
		err = whole.Err
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("ask %s: no answer within %v: is it the address of admin.listen, and can this machine reach it?", c.Address(), answerTime)
	}
	return fmt.Errorf("ask %s: %w", c.Address(), err)
}

// A Problem is an answer that refuses what was asked.
type Problem struct {
	Status int
	// ByRelay: a relay said so, and not something on the way to it.
	ByRelay bool
	text    string
}

// Missing reports whether a relay says that what was asked for is not there. A relay that does not know the question at all says so, too.
func (p *Problem) Missing() bool {
	return p.ByRelay && p.Status == http.StatusNotFound && !strings.Contains(p.text, "there is no operation")
}

// Passes reports whether the same question may have an answer later: the relay, or a proxy before it, is not ready.
func (p *Problem) Passes() bool {
	return p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests
}

func (p *Problem) Error() string { return p.text }

// problem reads a refusal: of RFC 9457, if it is tailbox's.
func (c *Client) problem(answer *http.Response, text []byte) error {
	var told struct {
		Detail string
		Errors []struct{ Message, Location string }
	}
	status := answer.StatusCode
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/problem+json") || json.Unmarshal(text, &told) != nil || told.Detail == "" {
		why := "is it the address of a relay's admin.listen, and does that relay have the HTTP API?"
		if to := answer.Header.Get("Location"); to != "" && status < http.StatusBadRequest {
			why = fmt.Sprintf("it points to %q: name that address, if you trust it", to)
		}
		return &Problem{status, false, fmt.Sprintf("ask %s: it answered %s: %s", c.Address(), answer.Status, why)}
	}
	detail := told.Detail
	for _, e := range told.Errors {
		detail += "; " + strings.TrimPrefix(e.Location+": ", ": ") + e.Message
	}
	if status == http.StatusUnauthorized {
		detail += fmt.Sprintf(": the token is that of %s", c.file)
	}
	return &Problem{status, true, fmt.Sprintf("ask %s: %s", c.Address(), detail)}
}
