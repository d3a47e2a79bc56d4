package main

import (
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/smtp"
)

func readSMTP(s *config.Sink) maker {
	k := s.Section
	c := smtp.Config{
		Address:          k.Host("address"),
		From:             k.String("from", ""),
		EnvelopeFrom:     k.String("envelope_from", ""),
		To:               readPick(k, "to"),
		CC:               readPick(k, "cc"),
		BCC:              readPick(k, "bcc"),
		ReplyTo:          readPick(k, "reply_to"),
		Subject:          readPick(k, "subject"),
		Text:             readPick(k, "text"),
		HTML:             readPick(k, "html"),
		Security:         smtp.Security(k.String("security", "")),
		Helo:             k.String("helo", ""),
		Concurrency:      k.Int("concurrency", 0, 1, 1000),
		MaxBatch:         k.Int("max_batch", 0, 1, 10_000),
		MaxBytes:         int(k.Size("max_bytes", 0, 1)),
		MaxPerConnection: k.Int("max_per_connection", 0, 1, 1_000_000),
		Timeout:          k.Positive("timeout"),
		ConnectTimeout:   k.Positive("connect_timeout"),
		IdleTimeout:      k.Positive("idle_timeout"),
		TLS:              readTLS(k),
		Raw:              k.Bool("raw", false),
		OmitMetadata:     !k.Bool("metadata_headers", true),
	}
	if auth := k.Section("auth"); auth != nil {
		c.Auth = &smtp.Auth{Mechanism: auth.String("mechanism", ""), Username: auth.String("username", ""), Password: auth.Secret("password")}
		auth.Done()
	}
	validated(s, c)
	return func() (sink.Sink, error) { return smtp.New(c) }
}

// readPick reads where a part of what a sink sends comes from.
func readPick(k *config.Section, key string) sink.Pick {
	text := k.String(key, "")
	p, err := sink.ParsePick(text)
	if err != nil {
		k.Add(key, text, err.Error()+"; allowed are "+sink.PickForms)
	}
	return p
}
