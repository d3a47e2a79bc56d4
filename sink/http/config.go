package http

import (
	"encoding/base64"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// Format says what a request looks like.
type Format string

// Formats of a request.
const (
	// Array: a JSON array of payloads; ids and positions are in headers.
	Array Format = "array"
	// Single: one message a request, the payload untouched, everything else in headers.
	Single Format = "single"
	// CloudEvents: one message a request, as a CloudEvent in structured mode.
	CloudEvents Format = "cloudevents"
	// CloudEventsBatch: a JSON array of CloudEvents.
	CloudEventsBatch Format = "cloudevents-batch"
)

// batches reports whether a request can hold several messages.
func (f Format) batches() bool { return f == Array || f == CloudEventsBatch }

// Defaults of a Config.
const (
	DefaultFormat         = Array
	DefaultMaxBatch       = 100
	DefaultMaxBytes       = 768 << 10
	DefaultConcurrency    = 64
	DefaultTimeout        = 30 * time.Second
	DefaultConnectTimeout = 10 * time.Second
	// DefaultIdleTimeout is below the 5 s after which many servers close a connection: one that is used at that very
	// moment costs an attempt, and perhaps a duplicate, for nobody can tell whether the request arrived.
	DefaultIdleTimeout = 4 * time.Second
)

// Config of a Sink. The zero value of a field means its default.
type Config struct {
	// URL that messages are sent to by POST; http or https. A user and password in it are sent as basic authentication.
	// Required.
	URL string
	// Format of a request. Default array.
	Format Format
	// Results says that the endpoint answers each message of a request by itself, in the response's body. For the formats
	// array and cloudevents-batch.
	Results bool
	// MaxBatch is the most messages in a request, for the formats that allow more than one. Default 100.
	MaxBatch int
	// MaxBytes is the most bytes of values in a request with more than one message. Default 768 KiB, because many servers
	// accept 1 MiB.
	MaxBytes int
	// Concurrency is the most requests in flight at once. Default 64.
	Concurrency int
	// Timeout bounds a request, from connecting to the answer. Default 30 s.
	Timeout time.Duration
	// ConnectTimeout bounds connecting, and the TLS handshake, within Timeout. Default 10 s.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. Default 4 s.
	IdleTimeout time.Duration
	// Bearer is a token that is sent as "Authorization: Bearer …".
	Bearer string
	// Headers are sent with each request. They win over a message's headers of the same name.
	Headers map[string]string
	// PassHeaders names headers that messages may have though endpoints trust them: Authorization, Cookie, Forwarded, X-Forwarded-*,
	// X-Real-Ip, X-Http-Method, X-Http-Method-Override and X-Method-Override are left out of messages otherwise.
	PassHeaders []string
	// TLS for https; nil means the system's authorities.
	TLS *sink.TLS
	// AllowPlaintext: credentials may go to other machines without encryption.
	AllowPlaintext bool
	// OmitMetadata leaves out every header and CloudEvents attribute whose name begins with tailbox (in the configuration:
	// metadata_headers: false).
	OmitMetadata bool
}

// secretHeader matches the names of headers whose values are likely to be secrets.
var secretHeader = regexp.MustCompile(`(?i)auth|key|token|secret|passw|cookie|signature|credential`)

// Read reads the keys of a sink of kind http.
func Read(s sink.Section) Config {
	c := Config{
		URL:            s.URL("url"),
		Format:         Format(s.String("format", string(DefaultFormat))),
		Results:        s.Bool("results", false),
		MaxBatch:       s.Int("max_batch", DefaultMaxBatch, 1, 10_000),
		MaxBytes:       int(s.Size("max_bytes", DefaultMaxBytes, 1)),
		Concurrency:    s.Int("concurrency", DefaultConcurrency, 1, 10_000),
		Timeout:        s.Positive("timeout", DefaultTimeout),
		ConnectTimeout: s.Positive("connect_timeout", DefaultConnectTimeout),
		IdleTimeout:    s.Positive("idle_timeout", DefaultIdleTimeout),
		Bearer:         s.Secret("bearer"),
		Headers:        s.Map("headers"),
		PassHeaders:    s.Strings("pass_headers"),
		TLS:            sink.ReadTLS(s),
		AllowPlaintext: s.Bool("allow_plaintext", false),
		OmitMetadata:   !s.Bool("metadata_headers", true),
	}
	for name, value := range c.Headers {
		if secretHeader.MatchString(name) {
			s.Conceal(value)
		}
	}
	return c
}

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

// Uncompressible implements compressed.Body: only the format single sends a value as the whole body.
func (c Config) Uncompressible() string {
	if c.Format == Single {
		return ""
	}
	return "needs format: single, because JSON around a payload cannot hold what is compressed"
}

func (c Config) withDefaults() Config {
	sink.SetDefault(&c.Format, DefaultFormat)
	sink.SetDefault(&c.MaxBatch, DefaultMaxBatch)
	sink.SetDefault(&c.MaxBytes, DefaultMaxBytes)
	sink.SetDefault(&c.Concurrency, DefaultConcurrency)
	sink.SetDefault(&c.Timeout, DefaultTimeout)
	sink.SetDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	sink.SetDefault(&c.IdleTimeout, DefaultIdleTimeout)
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
	u, err := url.Parse(c.URL)
	// The URL may hold a password or a token: an error names the key alone.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		errs = append(errs, errors.New("url: not allowed: want an absolute URL, http://… or https://…"))
	} else {
		n, err := strconv.ParseUint(u.Port(), 10, 16)
		check(u.Port() == "" || err == nil && n > 0, "url", "port "+u.Port(), "a port from 1 to 65535")
		check(c.TLS == nil || u.Scheme == "https", "tls", "set", "a URL that begins with https://")
		check(u.User == nil || c.Bearer == "", "bearer", "set", "either a bearer token or a user in the URL")
	}
	switch c.Format {
	case Array, Single, CloudEvents, CloudEventsBatch:
	default:
		check(false, "format", string(c.Format), "array, single, cloudevents or cloudevents-batch")
	}
	check(!c.Results || c.Format.batches(), "results", c.Results, "false, or the format array or cloudevents-batch")
	check(c.MaxBatch > 0 && c.MaxBatch <= 10_000, "max_batch", c.MaxBatch, "1 to 10000")
	check(c.MaxBytes > 0, "max_bytes", c.MaxBytes, "more than 0")
	check(c.Concurrency > 0 && c.Concurrency <= 10_000, "concurrency", c.Concurrency, "1 to 10000")
	check(c.Timeout > 0, "timeout", c.Timeout, "more than 0")
	check(c.ConnectTimeout > 0, "connect_timeout", c.ConnectTimeout, "more than 0")
	check(c.IdleTimeout > 0, "idle_timeout", c.IdleTimeout, "more than 0")
	check(sink.ValidHeaderValue(c.Bearer), "bearer", "a token", "no control characters, such as a line break at its end")
	for name, value := range c.Headers {
		key := fmt.Sprintf("headers.%q", name)
		check(sink.ValidHeaderName(name), key, name, "a header's name: letters, digits and - _ .")
		check(!framing(canonical(name)) || canonical(name) == "Host", key, name, "a header that does not belong to the connection itself")
		check(sink.ValidHeaderValue(value), key, "a value", "no control characters")
		check(canonical(name) != "Authorization" || c.Bearer == "", key, "set", "either bearer or a header Authorization")
	}
	for i, name := range c.PassHeaders {
		check(privileged(canonical(name)), fmt.Sprintf("pass_headers.%d", i), name, "Authorization, Cookie, Forwarded, X-Forwarded-…, X-Real-Ip, "+
			"X-Http-Method, X-Http-Method-Override or X-Method-Override: all others pass anyway, or never do")
	}
	return errors.Join(append(errs, c.TLS.Validate())...)
}

// fixed are the headers of every request, and its host if one is configured.
func (c Config) fixed(u *url.URL) (h nethttp.Header, host string) {
	h = nethttp.Header{"User-Agent": {"tailbox"}}
	switch {
	case c.Bearer != "":
		h["Authorization"] = []string{"Bearer " + c.Bearer}
	case u.User != nil:
		password, _ := u.User.Password()
		h["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))}
	}
	for name, value := range c.Headers {
		if name = canonical(name); name == "Host" {
			host = value
		} else {
			h[name] = []string{value}
		}
	}
	return h, host
}

// target is the URL without what may be secret in it: a webhook's is in its path as often as in its query.
func target(u *url.URL) string {
	where := u.Scheme + "://" + u.Host
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		where += "/…"
	}
	return where
}

// Server implements sink.Served.
func (c Config) Server() (host string, port int) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", 0
	}
	if port, err = strconv.Atoi(u.Port()); err != nil {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	return u.Hostname(), port
}

// plaintext says that credentials go over the network in the clear.
func (c Config) plaintext() error {
	u, err := url.Parse(c.URL)
	if err != nil || c.AllowPlaintext || u.Scheme != "http" {
		return nil
	}
	switch fixed, _ := c.fixed(u); {
	case c.Bearer != "":
		return sink.Plaintext("bearer", c.URL)
	case u.User != nil:
		return sink.Plaintext("the password in url", c.URL)
	case fixed["Authorization"] != nil:
		return sink.Plaintext("headers.Authorization", c.URL)
	}
	return nil
}
