package main

import (
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/compressed"
	"github.com/tailbox/tailbox/sink/file"
	"github.com/tailbox/tailbox/sink/http"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/stdout"
)

// validated tells what a kind finds wrong with its own configuration, at the keys that the errors begin with, and then
// that no further keys are known.
func validated(s *config.Sink, c interface{ Validate() error }) {
	s.Section.Done()
	err := c.Validate()
	if err == nil {
		return
	}
	unread := s.Section.Problems()
	for _, one := range flatten(err) {
		key, reason, ok := strings.Cut(one.Error(), ": ")
		if !ok || strings.ContainsAny(key, " \"") {
			key, reason = "kind", one.Error()
		}
		if steps := strings.Split(key, "."); !unread(steps...) {
			s.Section.AddAt(steps, reason)
		}
	}
}

// sharedPaths tells sinks that would write to one file: the second could not lock it.
func (p *parts) sharedPaths() {
	first := map[string]string{}
	for i := range p.config.Sinks {
		s := &p.config.Sinks[i]
		if s.Kind != "file" {
			continue
		}
		path := s.Section.Path("path")
		if path == "" {
			continue
		}
		real := filepath.Clean(path)
		if abs, err := filepath.Abs(path); err == nil {
			real = abs
		}
		// A folder may be reached by a link; the file itself need not be there yet.
		if dir, err := filepath.EvalSymlinks(filepath.Dir(real)); err == nil {
			real = filepath.Join(dir, filepath.Base(real))
		}
		if other, taken := first[real]; taken {
			s.Section.Add("path", path, "is the file of sink "+other+" already: give each its own, or route to one of the two")
			continue
		}
		first[real] = s.Name
	}
}

// flatten lists the errors that were joined into one.
func flatten(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range many.Unwrap() {
		all = append(all, flatten(one)...)
	}
	return all
}

func readStdout(s *config.Sink, out io.Writer) maker {
	c := stdout.Config{Name: s.Name, Writer: out}
	validated(s, c)
	return func() (sink.Sink, error) { return stdout.New(c) }
}

func readFile(s *config.Sink) maker {
	c := file.Config{Name: s.Name, Path: s.Section.Path("path")}
	if mode := s.Section.String("mode", ""); mode != "" {
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			s.Section.Add("mode", mode, "must be permission bits, such as 0640")
		}
		c.Mode = fs.FileMode(bits)
	}
	validated(s, c)
	return func() (sink.Sink, error) { return file.New(c) }
}

// secretHeader matches the names of headers whose values are likely to be secrets.
var secretHeader = regexp.MustCompile(`(?i)auth|key|token|secret|passw|cookie|signature|credential`)

func readHTTP(s *config.Sink) maker {
	k := s.Section
	c := http.Config{
		URL:            k.URL("url"),
		Format:         http.Format(k.String("format", "")),
		Results:        k.Bool("results", false),
		MaxBatch:       k.Int("max_batch", 0, 1, 10_000),
		MaxBytes:       int(k.Size("max_bytes", 0, 1)),
		Concurrency:    k.Int("concurrency", 0, 1, 10_000),
		Timeout:        k.Positive("timeout"),
		ConnectTimeout: k.Positive("connect_timeout"),
		IdleTimeout:    k.Positive("idle_timeout"),
		Bearer:         k.Secret("bearer"),
		Headers:        k.Map("headers"),
		PassHeaders:    k.Strings("pass_headers"),
		TLS:            readTLS(k),
		AllowPlaintext: k.Bool("allow_plaintext", false),
		OmitMetadata:   !k.Bool("metadata_headers", true),
	}
	for name, value := range c.Headers {
		if secretHeader.MatchString(name) {
			k.Conceal(value)
		}
	}
	pack := readCompression(k)
	if pack != nil {
		pack.ContentType = true
		if c.Format != http.Single {
			k.Add("payload_compression", compressed.Zstd, "needs format: single, because JSON around a payload cannot hold what is compressed")
		}
	}
	validated(s, c)
	return pack.around(func() (sink.Sink, error) { return http.New(c) })
}

// compression is what payloads go through on their way to a sink; nil where they do not.
type compression struct{ compressed.Config }

// readCompression reads the keys payload_compression and min_size.
func readCompression(k *config.Section) *compression {
	algorithm, least := k.Choice("payload_compression", "none", "none", compressed.Zstd), k.Size("min_size", compressed.DefaultMinSize, 1)
	if algorithm == "none" {
		if k.Has("min_size") {
			k.Add("min_size", "", "has no effect without payload_compression: zstd")
		}
		return nil
	}
	return &compression{compressed.Config{MinSize: int(least)}}
}

// around puts the compression in front of the sink that is made.
func (c *compression) around(m maker) maker {
	if c == nil {
		return m
	}
	return func() (sink.Sink, error) {
		s, err := m()
		if err != nil {
			return nil, err
		}
		return compressed.New(s, c.Config)
	}
}

func readKafka(s *config.Sink) maker {
	k := s.Section
	c := kafka.Config{
		Brokers:        k.Hosts("brokers"),
		Topics:         k.Strings("topics"),
		ClientID:       k.String("client_id", ""),
		Compression:    k.String("compression", ""),
		Concurrency:    k.Int("concurrency", 0, 1, 1000),
		MaxBatch:       k.Int("max_batch", 0, 1, 100_000),
		MaxBytes:       int(k.Size("max_bytes", 0, 1)),
		Timeout:        k.Positive("timeout"),
		ConnectTimeout: k.Positive("connect_timeout"),
		MetadataAge:    k.Positive("metadata_age"),
		TLS:            readTLS(k),
		AllowPlaintext: k.Bool("allow_plaintext", false),
		OmitMetadata:   !k.Bool("metadata_headers", true),
	}
	if sasl := k.Section("sasl"); sasl != nil {
		c.SASL = &kafka.SASL{Mechanism: sasl.String("mechanism", ""), Username: sasl.String("username", ""), Password: sasl.Secret("password")}
		sasl.Done()
	}
	pack := readCompression(k)
	validated(s, c)
	return pack.around(func() (sink.Sink, error) { return kafka.New(c) })
}

// readTLS reads the section tls of a sink; nil where there is none.
func readTLS(s *config.Section) *sink.TLS {
	k := s.Section("tls")
	if k == nil {
		return nil
	}
	defer k.Done()
	return &sink.TLS{CA: k.Path("ca"), Cert: k.Path("cert"), Key: k.Path("key"), ServerName: k.String("server_name", ""),
		InsecureSkipVerify: k.Bool("insecure_skip_verify", false)}
}
