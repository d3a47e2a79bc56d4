package trace

import (
	"encoding/hex"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

const (
	headerParent, headerState = "traceparent", "tracestate"
	// mostState is how long a tracestate may be that is passed on: W3C asks for at least 512 characters.
	mostState = 512
	// parentLength is that of version 00 of a traceparent; later versions may add to it.
	parentLength = 55
)

type (
	traceID [16]byte
	spanID  [8]byte
)

// A parent is the span that the application wrote a message in.
type parent struct {
	trace   traceID
	span    spanID
	sampled bool
	state   string
}

// parentOf returns the parent that a delivery's headers name: those of the router come first, because sinks send them first. ok is false if there is none, or
// if it is not valid.
func parentOf(d *sink.Delivery) (p parent, ok bool) {
	text, state := find(d.Headers)
	if text == nil {
		text, state = find(d.Message.Headers)
	}
	if p, ok = parseParent(text); ok && validState(state) {
		p.state = string(state)
	}
	return p, ok
}

func find(hs []outbox.Header) (text, state []byte) {
	for i := range hs {
		switch h := &hs[i]; {
		case text == nil && strings.EqualFold(h.Name, headerParent):
			text = h.Value
		case state == nil && strings.EqualFold(h.Name, headerState):
			state = h.Value
		}
	}
	return text, state
}

// parseParent reads version-trace-parent-flags, all in small hexadecimal digits.
func parseParent(text []byte) (p parent, ok bool) {
	if len(text) < parentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return p, false
	}
	if len(text) > parentLength && (string(text[:2]) == "00" || text[parentLength] != '-') {
		return p, false
	}
	var version, flags [1]byte
	if !decode(version[:], text[:2]) || version[0] == 0xff || !decode(p.trace[:], text[3:35]) || !decode(p.span[:], text[36:52]) || !decode(flags[:], text[53:55]) {
		return parent{}, false
	}
	p.sampled = flags[0]&1 != 0
	if p.trace == (traceID{}) || p.span == (spanID{}) {
		return parent{}, false
	}
	return p, true
}

func decode(to, text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(to, text)
	return err == nil
}

// validState reports whether a tracestate can be passed on: printable ASCII, and not too long.
func validState(state []byte) bool {
	if len(state) > mostState {
		return false
	}
	for _, c := range state {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
