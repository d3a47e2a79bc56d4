package slack

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// Defaults of a Config.
const (
	DefaultAPIURL         = "https://slack.com/api"
	DefaultChannel        = "message:topic"
	DefaultConcurrency    = 8
	DefaultTimeout        = 30 * time.Second
	DefaultConnectTimeout = 10 * time.Second
)

// Config of a Sink. The zero value of a field means its default.
type Config struct {
	// WebhookURL is that of an incoming webhook, which posts to one channel; or Token is an app's, to call
	// chat.postMessage. One of the two is required, and both are secret.
	WebhookURL string
	Token      string
	// Channel is where a message goes, with a token: a channel's id or name. Default: the message's topic.
	Channel sink.Pick
	// APIURL is where the Web API's methods lie. Default https://slack.com/api.
	APIURL string
	// Concurrency is the most requests in flight at once; to one channel there is never more than one. Default 8.
	Concurrency int
	// Timeout bounds a request, from connecting to the answer. Default 30 s.
	Timeout time.Duration
	// ConnectTimeout bounds connecting, and the TLS handshake, within Timeout. Default 10 s.
	ConnectTimeout time.Duration
	// TLS; nil means the system's authorities.
	TLS *sink.TLS
	// AllowPlaintext: token and webhook may go to other machines without encryption.
	AllowPlaintext bool
	// OmitMetadata leaves out all of a message's metadata but its id (in the configuration: metadata_headers: false).
	OmitMetadata bool
}

// Read reads the keys of a sink of kind slack.
func Read(s sink.Section) Config {
	c := Config{
		WebhookURL:     s.URL("webhook_url"),
		Token:          s.Secret("token"),
		Channel:        sink.ReadPick(s, "channel"),
		APIURL:         s.String("api_url", ""),
		Concurrency:    s.Int("concurrency", DefaultConcurrency, 1, 1000),
		Timeout:        s.Positive("timeout", DefaultTimeout),
		ConnectTimeout: s.Positive("connect_timeout", DefaultConnectTimeout),
		TLS:            sink.ReadTLS(s),
		AllowPlaintext: s.Bool("allow_plaintext", false),
		OmitMetadata:   !s.Bool("metadata_headers", true),
	}
	s.UserInfo("api_url", c.APIURL)
	return c
}

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

func (c Config) withDefaults() Config {
	if c.Channel.IsZero() {
		// It is a constant of ours, and parses.
		c.Channel, _ = sink.ParsePick(DefaultChannel)
	}
	sink.SetDefault(&c.APIURL, DefaultAPIURL)
	sink.SetDefault(&c.Concurrency, DefaultConcurrency)
	sink.SetDefault(&c.Timeout, DefaultTimeout)
	sink.SetDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	return c
}

// Validate returns all problems of c.
func (c Config) Validate() error {
	given := c
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, sink.Invalid(key, value, want))
		}
	}
	switch {
	case c.WebhookURL == "" && c.Token == "":
		errs = append(errs, errors.New("webhook_url: is missing: want that of an incoming webhook, or token with an app's token (xoxb-…)"))
	case c.WebhookURL != "" && c.Token != "":
		errs = append(errs, errors.New("webhook_url: stands beside token: keep one of the two"))
	}
	if c.WebhookURL != "" {
		// The URL is the secret: an error names the key alone.
		if !absolute(c.WebhookURL) {
			errs = append(errs, errors.New("webhook_url: not allowed: want an absolute URL, such as https://hooks.slack.com/services/…"))
		}
		check(given.Channel.IsZero(), "channel", given.Channel.String(), "a token, since a webhook has its own channel")
		check(given.APIURL == "", "api_url", given.APIURL, "a token, since a webhook has its own URL")
	}
	check(absolute(c.APIURL), "api_url", c.APIURL, "an absolute URL, http://… or https://…")
	check(sink.ValidHeaderValue(c.Token) && !strings.Contains(c.Token, " "), "token", "a token", "no spaces or control characters, such as a line break at its end")
	check(c.Concurrency > 0 && c.Concurrency <= 1000, "concurrency", c.Concurrency, "1 to 1000")
	check(c.Timeout > 0, "timeout", c.Timeout, "more than 0")
	check(c.ConnectTimeout > 0, "connect_timeout", c.ConnectTimeout, "more than 0")
	return errors.Join(append(errs, c.TLS.Validate())...)
}

func absolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}

// plaintext says that the token, or the webhook's URL, goes over the network in the clear.
func (c Config) plaintext() error {
	key, to := "token", c.APIURL
	if c.WebhookURL != "" {
		key, to = "webhook_url", c.WebhookURL
	}
	if c.AllowPlaintext || !strings.HasPrefix(to, "http://") {
		return nil
	}
	return sink.Plaintext(key, to)
}
