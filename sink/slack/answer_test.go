package slack_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/sinktest"
	"github.com/tailbox/tailbox/sink/slack"
)

func delivery(payload string) *sink.Delivery {
	return &sink.Delivery{
		Message: &outbox.Message{ID: "m-1", Type: "Sent", Group: "g", Headers: []outbox.Header{{Name: "channel", Value: []byte("C-header")}}},
		Topic:   "C-topic", Value: []byte(payload), Attempt: 2, Source: "shop",
	}
}

func one(t testing.TB, s sink.Sink, d *sink.Delivery) error {
	t.Helper()
	return sinktest.Call(t.Context(), t, s, []*sink.Delivery{d})[0]
}

// TestAnswers gives each of Slack's answers to a message.
func TestAnswers(t *testing.T) {
	t.Parallel()
	type said struct {
		status           int
		retryAfter, body string
		class            sink.Class
		wait             time.Duration
	}
	api := func(word string, class sink.Class) said {
		return said{status: 200, body: fmt.Sprintf(`{"ok":false,"error":%q}`, word), class: class}
	}
	for name, test := range map[string]struct {
		webhook bool
		said
	}{
		"channel_not_found":     {false, api("channel_not_found", sink.ClassMisconfigured)},
		"is_archived":           {false, api("is_archived", sink.ClassMisconfigured)},
		"not_in_channel":        {false, api("not_in_channel", sink.ClassMisconfigured)},
		"restricted_action":     {false, api("restricted_action_read_only_channel", sink.ClassMisconfigured)},
		"invalid_auth":          {false, api("invalid_auth", sink.ClassMisconfigured)},
		"token_revoked":         {false, api("token_revoked", sink.ClassMisconfigured)},
		"missing_scope":         {false, said{200, "", `{"ok":false,"error":"missing_scope","needed":"chat:write"}`, sink.ClassMisconfigured, 0}},
		"invalid_blocks":        {false, said{200, "", `{"ok":false,"error":"invalid_blocks","response_metadata":{"messages":["[ERROR] missing required field: type"]}}`, sink.ClassPermanent, 0}},
		"msg_too_long":          {false, api("msg_too_long", sink.ClassPermanent)},
		"ratelimited":           {false, api("ratelimited", sink.ClassThrottled)},
		"message_limit":         {false, api("message_limit_exceeded", sink.ClassThrottled)},
		"internal_error":        {false, api("internal_error", sink.ClassUnavailable)},
		"fatal_error":           {false, api("fatal_error", sink.ClassUnavailable)},
		"service_unavailable":   {false, api("service_unavailable", sink.ClassUnavailable)},
		"request_timeout":       {false, api("request_timeout", sink.ClassUnavailable)},
		"team_added_to_org":     {false, api("team_added_to_org", sink.ClassUnavailable)},
		"metadata and no app":   {false, api("metadata_must_be_sent_from_app", sink.ClassMisconfigured)},
		"a new word":            {false, api("something_new", sink.ClassRejected)},
		"429":                   {false, said{429, "30", `{"ok":false,"error":"ratelimited"}`, sink.ClassThrottled, 30 * time.Second}},
		"429 and no time":       {false, said{429, "", "", sink.ClassThrottled, time.Second}},
		"500":                   {false, said{500, "", "oops", sink.ClassRejected, 0}},
		"500 and a word":        {false, said{500, "", `{"ok":false,"error":"internal_error"}`, sink.ClassUnavailable, 0}},
		"500 and a new word":    {false, said{500, "", `{"ok":false,"error":"something_new"}`, sink.ClassRejected, 0}},
		"503":                   {false, said{503, "", "", sink.ClassUnavailable, 0}},
		"503 and a time":        {false, said{503, "7", "", sink.ClassThrottled, 7 * time.Second}},
		"a proxy's page":        {false, said{200, "", "<html>", sink.ClassMisconfigured, 0}},
		"a redirect":            {false, said{302, "", "", sink.ClassMisconfigured, 0}},
		"webhook 400":           {true, said{400, "", "invalid_payload", sink.ClassPermanent, 0}},
		"webhook invalid":       {true, said{400, "", "invalid_blocks", sink.ClassPermanent, 0}},
		"webhook no_text":       {true, said{400, "", "no_text", sink.ClassPermanent, 0}},
		"webhook user":          {true, said{400, "", "user_not_found", sink.ClassMisconfigured, 0}},
		"webhook 403":           {true, said{403, "", "action_prohibited", sink.ClassMisconfigured, 0}},
		"webhook token":         {true, said{403, "", "invalid_token", sink.ClassMisconfigured, 0}},
		"webhook 404":           {true, said{404, "", "no_service", sink.ClassMisconfigured, 0}},
		"webhook 404 channel":   {true, said{404, "", "channel_not_found", sink.ClassMisconfigured, 0}},
		"webhook 410":           {true, said{410, "", "channel_is_archived", sink.ClassMisconfigured, 0}},
		"webhook 429":           {true, said{429, "12", "rate_limited", sink.ClassThrottled, 12 * time.Second}},
		"webhook 500":           {true, said{500, "", "rollup_error", sink.ClassRejected, 0}},
		"webhook 500 and down":  {true, said{500, "", "service_unavailable", sink.ClassUnavailable, 0}},
		"webhook unknown 400":   {true, said{400, "", "what?", sink.ClassPermanent, 0}},
		"webhook and a new 404": {true, said{404, "", "what?", sink.ClassMisconfigured, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			s := newSink(t, w.config(test.webhook))
			w.say(func(string, map[string]json.RawMessage) (int, string, string) {
				return test.status, test.retryAfter, test.body
			})
			err := one(t, s, delivery("Hello"))
			class, wait, _ := sink.Classify(err)
			if err == nil || class != test.class || test.wait > 0 && wait != test.wait {
				t.Fatalf("%v, wait %v: %v; want %v, wait %v", class, wait, err, test.class, test.wait)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("an error tells a secret: %v", err)
			}
			if name == "invalid_blocks" && !strings.Contains(err.Error(), "missing required field") || name == "missing_scope" && !strings.Contains(err.Error(), "needed: chat:write") {
				t.Errorf("Slack said more than: %v", err)
			}
			w.say(nil)
			if err := one(t, s, delivery("Hello")); err != nil || len(w.taken()) != 1 {
				t.Errorf("afterwards: %v, %d messages", err, len(w.taken()))
			}
		})
	}
}

// TestBodies posts what payloads look like.
func TestBodies(t *testing.T) {
	t.Parallel()
	const metadata = `"metadata":{"event_type":"tailbox_message","event_payload":{"id":"m-1","type":"Sent","group":"g",` +
		`"position":"00000000-0000000000000000-00000000","attempt":2,"source":"shop"}}`
	const blocks = `{"blocks": [{"type": "section",  "text": {"type": "mrkdwn", "text": "*é*"}}], "unfurl_links":false}`
	pick := func(text string) sink.Pick {
		p, err := sink.ParsePick(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, test := range map[string]struct {
		webhook       bool
		change        func(*slack.Config)
		payload, want string
		fails         string
	}{
		"blocks": {false, nil, blocks, `{"channel":"C-topic","blocks":[{"type": "section",  "text": {"type": "mrkdwn", "text": "*é*"}}],"unfurl_links":false,` + metadata + `}`, ""},
		"text":   {false, nil, "Hello \"you\"\n", `{"channel":"C-topic",` + metadata + `,"text":"Hello \"you\"\n"}`, ""},
		"string": {false, nil, `"Hello"`, `{"channel":"C-topic",` + metadata + `,"text":"Hello"}`, ""},
		"number": {false, nil, `42`, `{"channel":"C-topic",` + metadata + `,"text":"42"}`, ""},
		"own metadata": {false, nil, `{"text":"a","metadata":{"event_type":"x"},"channel":"C-own"}`,
			`{"channel":"C-topic","text":"a","metadata":{"event_type":"x"}}`, ""},
		"no metadata": {false, func(c *slack.Config) { c.OmitMetadata = true }, "a",
			`{"channel":"C-topic","metadata":{"event_type":"tailbox_message","event_payload":{"id":"m-1"}},"text":"a"}`, ""},
		"own channel":     {false, func(c *slack.Config) { c.Channel = pick("payload:channel") }, `{"text":"a","channel":"C-own"}`, `{"channel":"C-own","text":"a",` + metadata + `}`, ""},
		"header":          {false, func(c *slack.Config) { c.Channel = pick("header:channel") }, "a", `{"channel":"C-header",` + metadata + `,"text":"a"}`, ""},
		"fixed":           {false, func(c *slack.Config) { c.Channel = pick("#ops") }, "a", `{"channel":"#ops",` + metadata + `,"text":"a"}`, ""},
		"missing":         {false, func(c *slack.Config) { c.Channel = pick("payload:channel") }, `{"text":"a"}`, "", "holds none"},
		"empty":           {false, nil, "", "", "empty"},
		"bytes":           {false, nil, "\xff", "", "UTF-8"},
		"webhook blocks":  {true, nil, blocks, blocks, ""},
		"webhook text":    {true, nil, "Hello", `{"text":"Hello"}`, ""},
		"webhook nothing": {true, nil, "", "", "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t)
			cfg := w.config(test.webhook)
			if test.change != nil {
				test.change(&cfg)
			}
			s := newSink(t, cfg)
			d := delivery(test.payload)
			d.Receipt = new(sink.Receipt)
			err := one(t, s, d)
			if test.fails != "" {
				if class, _, _ := sink.Classify(err); class != sink.ClassPermanent || !strings.Contains(fmt.Sprint(err), test.fails) || len(w.taken()) > 0 {
					t.Errorf("%v: %v, want permanent, with %q", class, err, test.fails)
				}
				return
			}
			if err != nil || len(w.taken()) != 1 {
				t.Fatalf("%v, %d messages", err, len(w.taken()))
			}
			if got := w.taken()[0].body; got != test.want {
				t.Errorf("posted %s\nwant   %s", got, test.want)
			}
			want := "ok"
			if !test.webhook {
				want = "channel=" + w.taken()[0].channel + " ts=1503435956.000247"
			}
			if got := d.Receipt.Text(); got != want {
				t.Errorf("receipt %q, want %q", got, want)
			}
		})
	}
}

// TestDestinations: each channel is paused by itself, and beyond 1,024 the rest shares a name.
func TestDestinations(t *testing.T) {
	t.Parallel()
	s := newSink(t, slack.Config{Token: token})
	names := map[string]bool{}
	for i := range 1100 {
		d := delivery("a")
		d.Topic = fmt.Sprint("C", i)
		names[s.Destination(d).Name] = true
	}
	d := delivery("a")
	d.Topic = "C7"
	if len(names) != 1025 || s.Destination(d).Name != "C7" {
		t.Errorf("%d destinations, want 1025; that of C7 is %v", len(names), s.Destination(d))
	}
	d.Topic = ""
	if got := s.Destination(d).Name; got != "(no channel)" {
		t.Errorf("no channel goes to %q", got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	wrong := w.config(false)
	wrong.Token = "xoxb-wrong-secret"
	problems := newSink(t, wrong).Check(t.Context())
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "invalid_auth") || strings.Contains(problems[0].Error(), "secret") {
		t.Errorf("a wrong token: %v", problems)
	}
	for _, asWebhook := range []bool{true, false} {
		s := newSink(t, w.config(asWebhook))
		w.stop(t)
		problems := s.Check(t.Context())
		if len(problems) != 1 || strings.Contains(problems[0].Error(), "secret") {
			t.Errorf("nobody there: %v", problems)
		}
		if err := one(t, s, delivery("a")); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("nobody there: %v", err)
		}
		w.start(t)
	}
	if n := len(w.taken()); n > 0 {
		t.Errorf("%d messages were posted", n)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]slack.Config{
		"webhook_url":  {},
		"webhook_url:": {WebhookURL: "hooks.slack.com/services/secret"},
		"channel":      {WebhookURL: "https://hooks.slack.com/services/secret", Channel: func() sink.Pick { p, _ := sink.ParsePick("#a"); return p }()},
		"api_url":      {Token: "secret", APIURL: "slack.com"},
		"token":        {Token: "secret\n"},
		"concurrency":  {Token: "secret", Concurrency: -1},
	} {
		_, err := slack.New(c)
		if err == nil || !strings.HasPrefix(err.Error(), key) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", key, err)
		}
	}
	both := slack.Config{Token: "t", WebhookURL: "https://hooks.slack.com/services/x"}
	if err := both.Validate(); err == nil {
		t.Error("a token and a webhook were taken together")
	}
	if s := newSink(t, slack.Config{Token: "t"}); s.Limits().PerDestination != 1 || s.Limits().Run != 1 {
		t.Errorf("limits %+v", s.Limits())
	}
}
