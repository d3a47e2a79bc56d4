package nats_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestDuplicates sends a message twice: the stream keeps it once, and both are delivered. Numbers, which every table
// uses, are told apart by their table.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	for _, test := range []struct {
		msgID       string
		text, other int // how often arrive: a text id twice; the number of two tables
	}{{nats.MsgIDAuto, 1, 2}, {nats.MsgIDPlain, 1, 1}, {nats.MsgIDQualified, 1, 2}, {nats.MsgIDNone, 2, 2}} {
		t.Run(test.msgID, func(t *testing.T) {
			t.Parallel()
			at := newStream(t, server, nil)
			s := newSink(t, nats.Config{Servers: []string{server.URL()}, MsgID: test.msgID})
			first, second := delivery(at.name, "42"), delivery(at.name, "42")
			second.Message.Table = "public.other"
			for i, d := range []*sink.Delivery{delivery(at.name, "a-1"), delivery(at.name, "a-1"), first, second} {
				d.Receipt = new(sink.Receipt)
				if err := one(t, s, d); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("stream=%s seq=%d", at.name, max(1, i))
				if test.text == 1 && i == 1 {
					want += " duplicate"
				}
				if got := d.Receipt.Text(); i < 2 && got != want && test.text == 1 {
					t.Errorf("receipt %q, want %q", got, want)
				}
			}
			count := map[string]int{}
			for _, a := range at.arrived(t) {
				count[a.ID]++
			}
			if count["a-1"] != test.text || count["42"] != test.other {
				t.Errorf("arrived %v, want a-1 %d times, 42 %d times", count, test.text, test.other)
			}
		})
	}
}

// TestRefusals delivers to each kind of refusal, beside a message that is accepted: that one is not held up.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	good := newStream(t, server, nil)
	s := newSink(t, nats.Config{Servers: []string{server.URL()}})
	small := newStream(t, server, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 500 })
	full := newStream(t, server, func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew })
	bytesFull := newStream(t, server, func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 400, jetstream.DiscardNew })
	perSubject := newStream(t, server, func(c *jetstream.StreamConfig) {
		c.MaxMsgs, c.MaxMsgsPerSubject, c.Discard, c.DiscardNewPerSubject = 100, 1, jetstream.DiscardNew, true
	})
	for _, at := range []*stream{full, bytesFull, perSubject} {
		if err := one(t, s, delivery(at.name, "first")); err != nil {
			t.Fatal(err)
		}
	}
	large := func(topic string, size int) *sink.Delivery {
		d := delivery(topic, "large")
		d.Value = make([]byte, size)
		return d
	}
	header := func(name, value string) *sink.Delivery {
		d := delivery(good.name, "header")
		d.Message.Headers = []outbox.Header{{Name: name, Value: []byte(value)}}
		return d
	}
	for name, test := range map[string]struct {
		d     *sink.Delivery
		class sink.Class
		says  string
	}{
		"no stream":                 {delivery("nobody."+good.name, "1"), sink.ClassMisconfigured, "nats stream add"},
		"larger than max_payload":   {large(good.name, 5<<20), sink.ClassPermanent, "max_payload"},
		"larger than max_msg_size":  {large(small.name, 1000), sink.ClassPermanent, "max_msg_size"},
		"full":                      {delivery(full.name, "2"), sink.ClassThrottled, "full"},
		"full of bytes":             {delivery(bytesFull.name, "2"), sink.ClassThrottled, "full"},
		"full subject":              {delivery(perSubject.name, "2"), sink.ClassRejected, "per subject"},
		"empty subject":             {delivery("", "2"), sink.ClassPermanent, "empty"},
		"subject with a space":      {delivery("a b", "2"), sink.ClassPermanent, "space"},
		"subject with a line break": {delivery("a\r\nPUB b 0", "2"), sink.ClassPermanent, "space or a control"},
		"subject with a wildcard":   {delivery("a.*", "2"), sink.ClassPermanent, "wildcard"},
		"subject of all":            {delivery("a.>", "2"), sink.ClassPermanent, "wildcard"},
		"subject with a gap":        {delivery("a..b", "2"), sink.ClassPermanent, "empty part"},
		"subject of the server":     {delivery("$JS.API.STREAM.PURGE."+good.name, "2"), sink.ClassPermanent, "server's own"},
		"somebody's inbox":          {delivery("_INBOX.x.y", "2"), sink.ClassPermanent, "for answers"},
		"a gateway's answer":        {delivery("_GR_.x.y", "2"), sink.ClassPermanent, "for answers"},
		"long subject":              {delivery(strings.Repeat("a", 4000), "2"), sink.ClassPermanent, "4000 bytes"},
		"header with a space":       {header("a b", "1"), sink.ClassPermanent, "a b"},
		"headers above 64 KiB":      {header("a", strings.Repeat("a", 70<<10)), sink.ClassPermanent, "group and key"},
		"header with a line break":  {header("a", "1\r\nNats-Rollup: all"), sink.ClassPermanent, "control"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantClass(t, one(t, s, test.d), test.class, test.says)
			beside := delivery(good.name, "beside "+name)
			test.d.Message.Group = "other"
			answers := s.Deliver(t.Context(), []*sink.Delivery{test.d, beside})
			if len(answers) != 2 || answers[0] == nil || answers[1] != nil {
				t.Errorf("with a good one beside it: %v", answers)
			}
		})
	}
}

// TestServerHeaders: a row cannot tell the server what to do.
func TestServerHeaders(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	at := newStream(t, server, func(c *jetstream.StreamConfig) { c.AllowRollup = true })
	s := newSink(t, nats.Config{Servers: []string{server.URL()}, Stream: at.name})
	if err := one(t, s, delivery(at.name, "first")); err != nil {
		t.Fatal(err)
	}
	d := delivery(at.name, "second")
	for _, name := range []string{"Nats-Rollup", "nats-msg-id", "Nats-Expected-Stream", "tailbox-position", "ID"} {
		d.Message.Headers = append(d.Message.Headers, outbox.Header{Name: name, Value: []byte("all")})
	}
	d.Message.Headers = append(d.Message.Headers, outbox.Header{Name: "mine", Value: []byte("1")})
	if err := one(t, s, d); err != nil {
		t.Fatal(err)
	}
	got := at.arrived(t)
	if len(got) != 2 || got[1].ID != "second" || len(got[1].Headers) != 7 {
		t.Errorf("arrived: %v, want both, the second with 7 headers", got)
	}
}

// TestExpectedStream: a subject that another stream takes is refused.
func TestExpectedStream(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	mine, other := newStream(t, server, nil), newStream(t, server, nil)
	s := newSink(t, nats.Config{Servers: []string{server.URL()}, Stream: mine.name, Subjects: []string{mine.name + ".a", other.name}})
	wantClass(t, one(t, s, delivery(other.name, "1")), sink.ClassMisconfigured, "check stream")
	if err := one(t, s, delivery(mine.name+".a", "1")); err != nil {
		t.Error(err)
	}
	problems := s.Check(t.Context())
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), other.name) {
		t.Errorf("check: %v, want the subject of the other stream", problems)
	}
	for want, cfg := range map[string]nats.Config{
		"no stream takes it": {Subjects: []string{mine.name, "nobody." + mine.name}},
		"does not exist":     {Stream: "missing"},
	} {
		cfg.Servers = []string{server.URL()}
		problems := newSink(t, cfg).Check(t.Context())
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("check: %v, want %q", problems, want)
		}
	}
}

// TestPermissions: what a user may not do is for the operator, and named at once.
func TestPermissions(t *testing.T) {
	t.Parallel()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	server := servers.NATS(t, servers.NATSOptions{Lines: []string{fmt.Sprintf(`authorization { users = [
		{ user: reader, password: secret },
		{ user: relay, password: "relay secret", permissions: { publish: ["s*.>", "allowed.>", "free.>"], subscribe: "_INBOX.>" } },
		{ user: deaf, password: "relay secret", permissions: { subscribe: { deny: "_INBOX.>" } } },
		{ user: elsewhere, password: "relay secret", permissions: { subscribe: "relay.>" } },
		{ nkey: %s }
	] }
	no_auth_user: reader`, public)}})
	at := newStream(t, server, func(c *jetstream.StreamConfig) { c.Subjects = []string{"allowed.>", "denied.>"} })
	config := func(change func(*nats.Config)) nats.Config {
		c := nats.Config{Servers: []string{server.URL()}, Username: "relay", Password: "relay secret"}
		change(&c)
		return c
	}
	for name, cfg := range map[string]nats.Config{
		"password": config(func(*nats.Config) {}),
		"nkey":     config(func(c *nats.Config) { c.Username, c.Password, c.NKey = "", "", string(seed)+"\n" }),
		"inbox":    config(func(c *nats.Config) { c.Username, c.InboxPrefix = "elsewhere", "relay.answers" }),
	} {
		s := newSink(t, cfg)
		if err := one(t, s, delivery("allowed.a", name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if problems := s.Check(t.Context()); len(problems) > 0 {
			t.Errorf("%s: check: %v", name, problems)
		}
	}
	s := newSink(t, config(func(*nats.Config) {}))
	wantClass(t, one(t, s, delivery("denied.a", "1")), sink.ClassMisconfigured, "allow the relay's user to publish")
	wantClass(t, one(t, s, delivery("free.a", "1")), sink.ClassMisconfigured, "publish to $JS.API.STREAM.NAMES, which tells them apart")
	ds := []*sink.Delivery{delivery("denied.a", "1"), delivery("allowed.a", "2"), delivery("denied.b", "3")}
	answers := s.Deliver(t.Context(), ds)
	if len(answers) != 3 || answers[0] == nil || answers[1] != nil || answers[2] == nil {
		t.Errorf("a subject that is denied beside one that is not: %v", answers)
	}
	wantClass(t, one(t, newSink(t, config(func(c *nats.Config) { c.Username = "deaf" })), delivery("allowed.a", "1")),
		sink.ClassMisconfigured, "inbox_prefix")
	wrong := newSink(t, config(func(c *nats.Config) { c.Password = "wrong secret" }))
	err = one(t, wrong, delivery("allowed.a", "1"))
	wantClass(t, err, sink.ClassMisconfigured, "check username")
	problems := wrong.Check(t.Context())
	if len(problems) != 1 {
		t.Errorf("check with a wrong password: %v", problems)
	}
	for _, err := range append(problems, err) {
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("an error tells a secret: %v", err)
		}
	}
	// That of the deaf one is not among them.
	if n := len(at.arrived(t)); n != 4 {
		t.Errorf("%d messages arrived, want 4", n)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{Lines: []string{`authorization { token: "open sesame" }`}})
	for token, ok := range map[string]bool{"open sesame": true, "": false, "wrong": false} {
		problems := newSink(t, nats.Config{Servers: []string{server.URL()}, Token: token}).Check(t.Context())
		if (len(problems) == 0) != ok {
			t.Errorf("token %q: %v", token, problems)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := servers.NATS(t, servers.NATSOptions{Mutual: true})
	plain := servers.SharedNATS(t)
	c := server.Certificates
	for name, test := range map[string]struct {
		url   string
		tls   *sink.TLS
		class sink.Class
	}{
		"mutual":          {server.URL(), &sink.TLS{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}, 0},
		"by address":      {"nats://" + server.Addr(), &sink.TLS{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey}, 0},
		"unknown CA":      {server.URL(), nil, sink.ClassMisconfigured},
		"no certificate":  {server.URL(), &sink.TLS{CA: c.CA}, sink.ClassUnreachable},
		"wrong name":      {server.URL(), &sink.TLS{CA: c.CA, Cert: c.ClientCert, Key: c.ClientKey, ServerName: "example.org"}, sink.ClassMisconfigured},
		"plain server":    {plain.URL(), &sink.TLS{CA: c.CA}, sink.ClassMisconfigured},
		"any certificate": {server.URL(), &sink.TLS{InsecureSkipVerify: true, Cert: c.ClientCert, Key: c.ClientKey}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink(t, nats.Config{Servers: []string{test.url}, TLS: test.tls})
			problems := s.Check(t.Context())
			if test.class == 0 {
				if len(problems) > 0 {
					t.Error(problems)
				}
				return
			}
			if len(problems) == 0 {
				t.Error("check finds nothing wrong")
			}
			wantClass(t, one(t, s, delivery("a", "1")), test.class, "")
		})
	}
}

// TestServers: one of several servers is enough, whichever it is.
func TestServers(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	gone := servers.NewProxy(t, server.Addr())
	if err := gone.Cut(); err != nil {
		t.Fatal(err)
	}
	at := newStream(t, server, nil)
	for range 10 {
		s := newSink(t, nats.Config{Servers: []string{gone.Addr, server.URL()}})
		if err := one(t, s, delivery(at.name, "1")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTimeout: a server that takes messages and does not answer may have stored them. What it stored is not stored again.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	proxy := servers.NewProxy(t, server.Addr())
	at := newStream(t, server, nil)
	s := newSink(t, nats.Config{Servers: []string{"nats://" + proxy.Addr}, Timeout: 200 * time.Millisecond})
	if err := one(t, s, delivery(at.name, "first")); err != nil {
		t.Fatal(err)
	}
	proxy.LoseAnswers()
	d := delivery(at.name, "second")
	wantClass(t, one(t, s, d), sink.ClassUnavailable, "possible duplicate")
	if err := proxy.Restore(); err != nil {
		t.Fatal(err)
	}
	sinktest.Eventually(t, "the message to be delivered", func() bool { return one(t, s, d) == nil })
	if got := at.arrived(t); len(got) != 2 {
		t.Errorf("%d messages in the stream, want 2", len(got))
	}
}

// TestBlockedWrite: a server that reads nothing makes writes hang; the call ends with its context all the same.
func TestBlockedWrite(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	proxy := servers.NewProxy(t, server.Addr())
	at := newStream(t, server, nil)
	s := newSink(t, nats.Config{Servers: []string{"nats://" + proxy.Addr}})
	if err := one(t, s, delivery(at.name, "first")); err != nil {
		t.Fatal(err)
	}
	proxy.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var ds []*sink.Delivery
	for i := range 100 {
		d := delivery(at.name, fmt.Sprintf("big-%d", i))
		d.Value = make([]byte, 1<<20)
		ds = append(ds, d)
	}
	done := make(chan []error)
	go func() { done <- s.Deliver(ctx, ds) }()
	select {
	case answers := <-done:
		for i, err := range answers {
			class, _, _ := sink.Classify(err)
			if err == nil || class != sink.ClassUnavailable && class != sink.ClassUnreachable && class != sink.ClassNotAttempted {
				t.Fatalf("answer %d: %v: %v", i, class, err)
			}
		}
	case <-time.After(time.Minute):
		t.Fatal("the call goes on although its context has ended")
	}
	if err := proxy.Restore(); err != nil {
		t.Fatal(err)
	}
	sinktest.Eventually(t, "deliveries over a new connection", func() bool { return one(t, s, delivery(at.name, "last")) == nil })
}

// TestRefusalKeepsNothing: a message that is larger than the server takes is free to go when it is refused.
func TestRefusalKeepsNothing(t *testing.T) {
	t.Parallel()
	server := servers.SharedNATS(t)
	good := newStream(t, server, nil)
	s := newSink(t, nats.Config{Servers: []string{server.URL()}})
	d := delivery(good.name, "large")
	d.Value = make([]byte, 5<<20)
	value := weak.Make(&d.Value[0])
	wantClass(t, one(t, s, d), sink.ClassPermanent, "max_payload")
	d.Value, d.Message.Payload = nil, nil
	runtime.GC()
	if value.Value() != nil {
		t.Error("the payload is still in memory")
	}
	runtime.KeepAlive(s)
}
