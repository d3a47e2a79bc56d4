package main

import (
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/slack"
)

func readSlack(s *config.Sink) maker {
	k := s.Section
	c := slack.Config{
		WebhookURL:     k.URL("webhook_url"),
		Token:          k.Secret("token"),
		Channel:        readPick(k, "channel"),
		APIURL:         k.String("api_url", ""),
		Concurrency:    k.Int("concurrency", 0, 1, 1000),
		Timeout:        k.Positive("timeout"),
		ConnectTimeout: k.Positive("connect_timeout"),
		TLS:            readTLS(k),
		AllowPlaintext: k.Bool("allow_plaintext", false),
		OmitMetadata:   !k.Bool("metadata_headers", true),
	}
	k.UserInfo("api_url", c.APIURL)
	validated(s, c)
	return func() (sink.Sink, error) { return slack.New(c) }
}
