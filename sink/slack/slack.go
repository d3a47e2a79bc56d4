// Package slack is a sink that posts messages to Slack, by an incoming webhook or by chat.postMessage.
//
// A payload that is a JSON object is what is posted, byte for byte: blocks, text, attachments. With a token, channel and
// metadata are put in: the channel is the message's topic, or what the configuration says, and the metadata carry what
// the relay knows of the message, unless the payload has its own. Any other payload is posted as text.
//
// One message at a time goes to a channel. Slack answers whether it took it; it does not drop what it has already, so
// that a lost answer is a message that is posted twice, with the same id in its metadata. Slack says itself when it has
// had enough, and for how long: the sink keeps to that, and counts nothing by itself.
package slack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tailbox/tailbox/sink"
)

// A Sink posts to one webhook, or with one token. It is made by New.
type Sink struct {
	cfg       Config
	target    *url.URL // of a message
	transport *http.Transport
	channels  *sink.Names
}

const (
	// webhook is the name of a webhook's one destination, noChannel that of messages without any.
	webhook   = "webhook"
	noChannel = "(no channel)"
)

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
	s := &Sink{cfg: cfg, transport: newTransport(cfg, tlsConfig), channels: sink.NewNames("(other channels)")}
	if cfg.WebhookURL != "" {
		s.target, err = url.Parse(cfg.WebhookURL)
	} else {
		s.target, err = s.method("chat.postMessage")
	}
	return s, err
}

// method is the URL of one of the Web API's.
func (s *Sink) method(name string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(s.cfg.APIURL, "/") + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("api_url: %w", err)
	}
	return u, nil
}

func newTransport(cfg Config, tlsConfig *tls.Config) *http.Transport {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: cfg.ConnectTimeout}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: cfg.ConnectTimeout,
		MaxIdleConnsPerHost: cfg.Concurrency,
		// Below the time after which servers close a connection, so that few requests meet a closing one.
		IdleConnTimeout: cfg.ConnectTimeout / 2,
		Protocols:       new(http.Protocols),
		// The default of 10 MiB takes 160 MB of memory a call if the headers are short.
		MaxResponseHeaderBytes: 64 << 10,
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// Limits implements sink.Sink.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: 1, Concurrency: s.cfg.Concurrency, PerDestination: 1, Run: 1}
}

// Destination implements sink.Destinations.
func (s *Sink) Destination(d *sink.Delivery) sink.Destination {
	if s.cfg.WebhookURL != "" {
		return sink.Destination{Name: webhook}
	}
	channel, err := s.channel(d)
	if err != nil {
		return sink.Destination{Name: noChannel}
	}
	return s.channels.Destination(channel)
}

// channel is where d goes.
func (s *Sink) channel(d *sink.Delivery) (string, error) {
	channel, ok, err := s.cfg.Channel.Text(&sink.View{Delivery: d})
	if err == nil && (!ok || channel == "") {
		err = fmt.Errorf("%s holds none", s.cfg.Channel)
	}
	if err != nil {
		return "", fmt.Errorf("find the channel: %w", err)
	}
	return channel, nil
}

// Deliver implements sink.Sink.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	var answers []error
	for i, d := range ds {
		if err := s.post(ctx, d); err != nil {
			if answers == nil {
				answers = make([]error, len(ds))
			}
			answers[i] = err
			for rest := i + 1; rest < len(ds); rest++ {
				answers[rest] = sink.ErrNotAttempted
			}
			break
		}
	}
	return answers
}

// post posts one message.
func (s *Sink) post(ctx context.Context, d *sink.Delivery) error {
	body, err := s.body(d)
	if err != nil {
		return sink.Permanent(err)
	}
	a, err := s.call(ctx, s.target, body)
	if err != nil {
		return err
	}
	if s.cfg.WebhookURL != "" {
		if err := a.webhook(); err != nil {
			return err
		}
		d.Receipt.Set(a.text)
		return nil
	}
	posted, err := a.method()
	if err != nil {
		return err
	}
	if d.Receipt != nil {
		d.Receipt.Set("channel=" + posted.Channel + " ts=" + posted.TS)
	}
	return nil
}

// Check implements sink.Checker. With a token it asks Slack whose that is; with a webhook it only connects, since there
// is no way to ask without posting.
func (s *Sink) Check(ctx context.Context) []error {
	return sink.AppendProblem(s.check(ctx), s.cfg.plaintext())
}

func (s *Sink) check(ctx context.Context) []error {
	if s.cfg.WebhookURL != "" {
		return s.checkWebhook(ctx)
	}
	u, err := s.method("auth.test")
	if err != nil {
		return []error{err}
	}
	a, err := s.call(ctx, u, []byte("{}"))
	if err == nil {
		_, err = a.method()
	}
	if err != nil {
		return []error{fmt.Errorf("ask whose token it is: %w", err)}
	}
	return nil
}

func (s *Sink) checkWebhook(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	address, secure := s.target, s.target.Scheme == "https"
	if proxy, err := s.transport.Proxy(&http.Request{URL: s.target}); err != nil {
		return []error{fmt.Errorf("read HTTP_PROXY or HTTPS_PROXY: %w", err)}
	} else if proxy != nil {
		address, secure = proxy, false
	}
	port := address.Port()
	if port == "" {
		port = address.Scheme
	}
	at := net.JoinHostPort(address.Hostname(), port)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err == nil {
		defer conn.Close()
		if secure {
			err = s.shakeHands(ctx, conn)
		}
	}
	if err != nil {
		return []error{fmt.Errorf("connect to %s: %w: check webhook_url, tls and the network", at, err)}
	}
	return nil
}

func (s *Sink) shakeHands(ctx context.Context, conn net.Conn) error {
	cfg := new(tls.Config)
	if s.transport.TLSClientConfig != nil {
		cfg = s.transport.TLSClientConfig.Clone()
	}
	if cfg.ServerName == "" {
		cfg.ServerName = s.target.Hostname()
	}
	return tls.Client(conn, cfg).HandshakeContext(ctx)
}

// Close implements sink.Sink.
func (s *Sink) Close(context.Context) error {
	s.transport.CloseIdleConnections()
	return nil
}

// reply is what the Web API says.
type reply struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	Needed   string `json:"needed"`
	Channel  string `json:"channel"`
	TS       string `json:"ts"`
	Metadata struct {
		Messages []string `json:"messages"`
	} `json:"response_metadata"`
}

// parse reads an answer of the Web API.
func parse(text string) (p reply, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || members["ok"] == nil {
		return p, false
	}
	return p, json.Unmarshal([]byte(text), &p) == nil
}
