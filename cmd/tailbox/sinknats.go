package main

import (
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
)

func readNATS(s *config.Sink) maker {
	k := s.Section
	c := nats.Config{
		Servers:        k.URLs("servers"),
		Stream:         k.String("stream", ""),
		Subjects:       k.Strings("subjects"),
		Name:           k.String("name", ""),
		Username:       k.String("username", ""),
		Password:       k.Secret("password"),
		Token:          k.Secret("token"),
		NKey:           k.Secret("nkey"),
		Credentials:    k.Secret("creds"),
		InboxPrefix:    k.String("inbox_prefix", ""),
		MsgID:          k.String("msg_id", ""),
		Concurrency:    k.Int("concurrency", 0, 1, 10_000),
		MaxBatch:       k.Int("max_batch", 0, 1, 10_000),
		MaxBytes:       int(k.Size("max_bytes", 0, 1)),
		Timeout:        k.Positive("timeout"),
		ConnectTimeout: k.Positive("connect_timeout"),
		TLS:            readTLS(k),
		AllowPlaintext: k.Bool("allow_plaintext", false),
		OmitMetadata:   !k.Bool("metadata_headers", true),
	}
	pack := readCompression(k)
	validated(s, c)
	return pack.around(func() (sink.Sink, error) { return nats.New(c) })
}
