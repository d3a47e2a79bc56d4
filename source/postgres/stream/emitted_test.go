package stream

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// What is no envelope is kept whole; nothing of it is lost, and no text of it breaks a table.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	at := outbox.Position{Log: 1, Commit: 2, N: 3}
	for _, c := range []struct{ content, want string }{
		{`{"id": "i", "type": "T", "group": "g", "key": "k", "payload": {"a":  1}}`, `i|T|T|g|k|{"a":  1}|`},
		{`{"type": "T", "topic": "x", "payload_text": "a\u0000b"}`, "message-" + at.String() + "|T|x|||a\x00b|"},
		{`{"id": "i", "type": "T", "payload_base64": "AP8=", "headers": {"b": "2", "a": 1}}`, "i|T|T|||\x00\xff|b=2,a=1"},
		{`{"id": "i", "type": null, "topic": "x", "payload": null}`, "i||x|||nil|"},
		{`{"id": "i", "type": "T", "payload": "text"}`, `i|T|T|||"text"|`},
		{`{"id": "i", "t\u0079pe": "\ud83d\ude00\\ud800", "payload": {"a": "\ud800"}}`, `i|😀\ud800|😀\ud800|||{"a": "\ud800"}|`},
	} {
		m := &outbox.Message{Position: at, Table: "t"}
		decodeEnvelope(m, []byte(c.content), session.UTF8)
		if got := shortly(m); got != c.want || m.Fault != nil {
			t.Errorf("%s is %q, %v, want %q", c.content, got, m.Fault, c.want)
		}
	}
	for content, want := range map[string]string{
		"":                                   "read JSON",
		`{"id": "i"} {}`:                     "more than one object",
		`{"grup": "g"}`:                      `unknown member "grup"`,
		"{\"id\": \"\xff\"}":                 "not UTF-8",
		`{"type": "T", "group": "a\u0000b"}`: `\u0000`,
		`{"type": "T", "group": "` + strings.Repeat("g", outbox.MaxGroup+1) + `"}`: "group has 65537 bytes",
		`{"type": "` + strings.Repeat("T", outbox.MaxIndexed+1) + `"}`:             "type: it has 1025 bytes",
		`{"` + strings.Repeat("T", 1<<20) + `": 1}`:                                " bytes)",
		`{"type": "T", "payload": 1, "payload_text": ""}`:                          "more than one of payload",
		`{"type": "T", "payload_base64": "?"}`:                                     "payload_base64",
		`{"type": "T", "headers": [1]}`:                                            "headers",
		"null":                                                                     "no object",
		`[]`:                                                                       "no object",
		`{"type": "T"`:                                                             "read JSON",
		`{"type": "T"}]`:                                                           "more than one object",
		`{}`:                                                                       "neither a type nor a topic",
		`{"type": null, "topic": ""}`:                                              "neither a type nor a topic",
		`{"TYPE": "T"}`:                                                            `unknown member "TYPE"`,
		`{"type": "T", "type": "U"}`:                                               `"type" more than once`,
		`{"type": "T", "payload_text": "\ud800"}`:                                  "half a surrogate",
		`{"type": "\uDC00\uD800"}`:                                                 "half a surrogate",
		`{"type": "T", "headers": {"h": "a\ud83dx"}}`:                              "half a surrogate",
		`{"available_at": "tomorrow"}`:                                             "read JSON",
	} {
		m := &outbox.Message{Position: at, Table: "t", CommitTime: time.Unix(1, 0)}
		decodeEnvelope(m, []byte(content), session.UTF8)
		if m.Fault == nil || !strings.Contains(m.Fault.Reason, want) || string(m.Payload) != content || !outbox.IsStandInID(m.ID) || m.Table != "t" ||
			m.Position != at || m.CommitTime.IsZero() || strings.Contains(m.Group, "\x00") || len(m.Group) > outbox.MaxIndexed {
			t.Errorf("%q: fault %+v, message %+v, want %q", content, m.Fault, m, want)
		}
	}
}

func shortly(m *outbox.Message) string {
	var headers []string
	for _, h := range m.Headers {
		headers = append(headers, h.Name+"="+string(h.Value))
	}
	payload := string(m.Payload)
	if m.Payload == nil {
		payload = "nil"
	}
	return strings.Join([]string{m.ID, m.Type, m.Topic, m.Group, string(m.Key), payload, strings.Join(headers, ",")}, "|")
}

// What cannot be understood keeps its place in its group, if that much is certain.
func TestEnvelopesKeepTheirGroup(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`{"x": {"group": 1}, "group": "g"}`:      "g",
		`{"priority": "high", "group": "g"}`:     "g",
		`{"group": "g", "group": "h"}`:           "",
		`{"GROUP": "g", "type": "T"}`:            "",
		`{"group": "\ud800", "type": "T"}`:       "",
		`{"group": "g", "type": "T", "key": "\u`: "g",
	} {
		m := &outbox.Message{Table: "t"}
		if decodeEnvelope(m, []byte(content), session.UTF8); m.Fault == nil || m.Group != want {
			t.Errorf("%s: fault %+v, group %q, want %q", content, m.Fault, m.Group, want)
		}
	}
}

// A message above max_message is a dead letter with the members that stand before the one that is cut off, whether it fits into the buffer or
// not, and what comes behind it is delivered.
func TestEmittedAboveMaxMessage(t *testing.T) {
	t.Parallel()
	payload := strings.Repeat("\u00fc", 100_000)
	var stream []byte
	for _, m := range [][]byte{wireLog(wireBegin(200, 1)), wireLog(wireEmitted("tailbox", `{"type": "T"}`)), wireLog(wireCommit(208)), wireLog(wireBegin(400, 2)),
		wireLog(wireEmitted("tailbox", `{"id": "i", "type": "U", "group": "g", "payload_text": "`+payload+`", "topic": "x"}`)),
		wireLog(wireEmitted("tailbox", `{"payload_text": "`+payload+`", "id": "i", "type": "U", "group": "g"}`)),
		wireLog(wireEmitted("tailbox", strings.Repeat("x", 70_000))), wireLog(wireEmitted("tailbox", `{"type": "V"}`)), wireLog(wireCommit(408))} {
		stream = append(stream, m...)
	}
	for _, buffer := range []int{300, pgrepl.BufferSize} {
		var got []string
		_ = fuzzStream(stream, 1000, buffer, func(_ context.Context, b *source.Batch) error {
			for _, m := range b.Messages {
				class := ""
				if m.Fault != nil {
					class = m.Fault.Class
				}
				if m.Payload != nil || m.ID == "" || class != "" && !strings.Contains(m.Fault.Reason, "raise max_message (3000 bytes)") {
					t.Errorf("buffer of %d bytes: id %q, payload of %d bytes, fault %+v", buffer, m.ID, len(m.Payload), m.Fault)
				}
				got = append(got, strings.Join([]string{m.Type, m.Topic, m.Group, class}, "|"))
			}
			return nil
		})
		if text := strings.Join(got, " "); text != "T|T|| U|U|g|too_large |||too_large |||too_large V|V||" {
			t.Errorf("buffer of %d bytes: %s", buffer, text)
		}
	}
}

// Messages outside of a transaction are logged once in a while, with their number.
func TestOutsideOfATransaction(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	st := &stream{cfg: &session.Config{Config: source.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, Messages: "tailbox"}}
	message := wireEmitted("tailbox", `{"type": "T"}`)[1:]
	message[0] = 0 // not in a transaction
	for range 2000 {
		if ours, err := st.isLogMessage(message); ours || err != nil {
			t.Fatal(ours, err)
		}
	}
	st.reportOutside(time.Now().Add(time.Hour))
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "messages=1\n") || !strings.Contains(text, "messages=1999\n") {
		t.Errorf("logged %s", text)
	}
}
