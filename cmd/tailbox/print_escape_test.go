package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// What a row holds can neither steer the terminal of whoever looks at it nor turn its text around.
func TestForeignTextIsHarmless(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]52;c;c2VjcmV0\a\x1b[2J\u009b2J\u202egnp.exe\u200b\r"
	found := []store.Listed{{Parked: checkpoint.Parked{Sink: "api", State: checkpoint.StateDead, LastError: hostile, ErrorClass: "rejected",
		Message: &outbox.Message{ID: hostile, Type: hostile, Group: hostile, Topic: hostile, Key: []byte(hostile), Payload: []byte("line 1\n\tline 2" + hostile),
			Headers: []outbox.Header{{Name: hostile, Value: []byte(hostile)}}}}}}
	var b bytes.Buffer
	if err := printDetails(&b, found); err != nil {
		t.Fatal(err)
	}
	if err := printParked(&b, found, false); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsAny(text, "\x1b\a\r\u009b\u202e\u200b") || !strings.Contains(text, "line 1\n\tline 2\\u001b]52") {
		t.Errorf("printed:\n%q", text)
	}
}
