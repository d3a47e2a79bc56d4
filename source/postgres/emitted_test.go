package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/outbox"
)

// What is no envelope is kept whole; nothing of it is lost, and no text of it breaks a table.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	at := outbox.Position{Log: 1, Commit: 2, N: 3}
	for _, c := range []struct{ content, want string }{
		{`{"id": "i", "type": "T", "group": "g", "key": "k", "payload": {"a":  1}}`, `i|T|T|g|k|{"a":  1}|`},
		{`{"type": "T", "topic": "x", "payload_text": "a\u0000b"}`, "message-" + at.String() + "|T|x|||a\x00b|"},
		{`{"id": "i", "payload_base64": "AP8=", "headers": {"b": "2", "a": 1}}`, "i|||||\x00\xff|b=2,a=1"},
		{`{"id": "i", "payload": null}`, "i|||||nil|"},
		{`{"id": "i", "payload": "text"}`, `i|||||"text"|`},
	} {
		m := &outbox.Message{Position: at, Table: "t"}
		decodeEnvelope(m, []byte(c.content), encodingUTF8)
		if got := shortly(m); got != c.want || m.Fault != nil {
			t.Errorf("%s is %q, %v, want %q", c.content, got, m.Fault, c.want)
		}
	}
	for content, want := range map[string]string{
		"":                      "read JSON",
		`{"id": "i"} {}`:        "more than one object",
		`{"grup": "g"}`:         `unknown field "grup"`,
		"{\"id\": \"\xff\"}":    "not UTF-8",
		`{"group": "a\u0000b"}`: `\u0000`,
		`{"group": "` + strings.Repeat("g", 1001) + `"}`: "more than 1000 bytes",
		`{"payload": 1, "payload_text": ""}`:             "more than one of payload",
		`{"payload_base64": "?"}`:                        "payload_base64",
		`{"headers": [1]}`:                               "headers",
		`{"available_at": "tomorrow"}`:                   "read JSON",
	} {
		m := &outbox.Message{Position: at, Table: "t", CommitTime: time.Unix(1, 0)}
		decodeEnvelope(m, []byte(content), encodingUTF8)
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
