package smtp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/smtp"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func newSink(t testing.TB, cfg smtp.Config) *smtp.Sink {
	t.Helper()
	if cfg.From == "" {
		cfg.From = "Shop <shop@example.org>"
	}
	s, err := smtp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

func pick(t testing.TB, text string) sink.Pick {
	t.Helper()
	p, err := sink.ParsePick(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wrapped puts any value into a mail, so that the kit can deliver what it likes: nil is no attachment.
type wrapped struct{ sink.Sink }

func (w wrapped) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	mails := make([]*sink.Delivery, len(ds))
	for i, d := range ds {
		own := *d
		content := map[string]any{"to": "a@example.org", "subject": d.Message.ID, "text": "kit"}
		if d.Value != nil {
			content["attachments"] = []map[string]string{{"content": base64.StdEncoding.EncodeToString(d.Value)}}
		}
		own.Value, _ = json.Marshal(content) // texts only: no error
		mails[i] = &own
	}
	return w.Sink.Deliver(ctx, mails)
}

func (w wrapped) Check(ctx context.Context) []error { return w.Sink.(sink.Checker).Check(ctx) }

// arrivals unwraps mails.
func arrivals(t testing.TB, mails []servers.Mail) []sinktest.Arrival {
	t.Helper()
	var all []sinktest.Arrival
	for _, one := range mails {
		m := read(t, one.Data)
		a := sinktest.Arrival{ID: unescape(t, m.Header.Get("X-Tailbox-Id"))}
		for _, name := range []string{"Type", "Group", "Position", "Attempt", "Source"} {
			a.Headers = append(a.Headers, outbox.Header{Name: name, Value: []byte(unescape(t, m.Header.Get("X-Tailbox-"+name)))})
		}
		for _, p := range leaves(t, m) {
			if p.disposition != "" {
				a.Value = p.content
			}
		}
		all = append(all, a)
	}
	return all
}

func unescape(t testing.TB, s string) string {
	t.Helper()
	u, err := url.PathUnescape(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func read(t testing.TB, data []byte) *mail.Message {
	t.Helper()
	for line := range bytes.SplitSeq(data, []byte("\r\n")) {
		if len(line) > 998 || bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("a line of %d bytes: %.200q", len(line), line)
		}
	}
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return m
}

// leaf is one part of a mail.
type leaf struct {
	kind, disposition, id string
	content               []byte
}

func leaves(t testing.TB, m *mail.Message) []leaf {
	t.Helper()
	return walk(t, m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body, leaf{})
}

func walk(t testing.TB, kind, encoding string, body io.Reader, l leaf) (all []leaf) {
	t.Helper()
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		t.Fatalf("%q: %v", kind, err)
	}
	if !strings.HasPrefix(media, "multipart/") {
		switch encoding {
		case "base64":
			body = base64.NewDecoder(base64.StdEncoding, body)
		case "quoted-printable":
			body = quotedprintable.NewReader(body)
		}
		l.kind = kind
		if l.content, err = io.ReadAll(body); err != nil {
			t.Fatal(err)
		}
		return []leaf{l}
	}
	r := multipart.NewReader(body, params["boundary"])
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, walk(t, p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p,
			leaf{disposition: p.Header.Get("Content-Disposition"), id: p.Header.Get("Content-ID")})...)
	}
}

func TestKit(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, sinktest.Harness{
		New: func(t *testing.T) sinktest.Place {
			server := servers.StartMail(t, servers.MailOptions{})
			must := func(f func() error) func(testing.TB) {
				return func(t testing.TB) {
					if err := f(); err != nil {
						t.Error(err)
					}
				}
			}
			return sinktest.Place{
				Sink: wrapped{newSink(t, smtp.Config{Address: server.Addr()})}, Topic: "mails",
				Arrived: func(t testing.TB) []sinktest.Arrival { return arrivals(t, server.Mails()) },
				Stop:    must(server.Stop), Start: must(server.Start),
				Hang: func(testing.TB) func() {
					hold := make(chan struct{})
					server.On(func(servers.MailEvent) error { <-hold; return nil })
					return sync.OnceFunc(func() { server.On(nil); close(hold) })
				},
			}
		},
		Want: func(d *sink.Delivery, a sinktest.Arrival) sinktest.Arrival {
			a.Key, a.Headers = nil, nil
			if a.Value != nil && len(a.Value) == 0 {
				a.Value = []byte{}
			}
			for _, one := range [][2]string{{"Type", d.Message.Type}, {"Group", d.Message.Group}, {"Position", d.Message.Position.String()},
				{"Attempt", attempt(d)}, {"Source", d.Source}} {
				a.Headers = append(a.Headers, outbox.Header{Name: one[0], Value: []byte(one[1])})
			}
			return a
		},
	})
}

func attempt(d *sink.Delivery) string {
	for _, h := range sink.AppendHeaders(nil, d, true) {
		if h.Name == sink.HeaderAttempt {
			return string(h.Value)
		}
	}
	return ""
}

// delivery is a mail of a group.
func delivery(id, group string) *sink.Delivery {
	return &sink.Delivery{
		Message: &outbox.Message{ID: id, Type: "Sent", Group: group, Table: "public.mails", CommitTime: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		Topic:   "mails", Value: []byte(`{"to": "` + id + `@example.org", "subject": "Hello", "text": "Hi"}`), Attempt: 1, Source: "shop",
	}
}

func class(err error) sink.Class {
	c, _, _ := sink.Classify(err)
	return c
}

// to lists who got a mail, in order.
func to(mails []servers.Mail) string {
	var names []string
	for _, m := range mails {
		for _, one := range m.To {
			names = append(names, strings.TrimSuffix(one, "@example.org"))
		}
	}
	return strings.Join(names, " ")
}
