package sqlstore

import (
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
)

// StateDelivered is a state that only stores know: delivered, but the message's row was locked and has still to be dealt
// with.
const StateDelivered checkpoint.State = "delivered"

// MaxErrorText bounds last_error, in bytes.
const MaxErrorText = 4096

// Alone tells whether a delivery is a lane of its own: no group, or a time of its own.
func Alone(p *checkpoint.Parked) bool {
	m := p.Message
	if m.Group == "" {
		return true
	}
	if p.Blocks {
		return false
	}
	return p.State == checkpoint.StateRetrying || p.State == checkpoint.StateWaiting || m.AvailableAt.After(m.CommitTime)
}

// FirstOfLanes tells for each delivery whether none of the others blocks before it: in its own lane, or in its group at
// the sink "".
func FirstOfLanes(parks []checkpoint.Parked) []bool {
	lowest := make(map[checkpoint.Lane]int, len(parks))
	for i := range parks {
		p := &parks[i]
		if !p.Blocks || Alone(p) {
			continue
		}
		lane := checkpoint.Lane{Sink: p.Sink, Group: p.Message.Group}
		if j, ok := lowest[lane]; !ok || p.Message.Position.Compare(parks[j].Message.Position) < 0 {
			lowest[lane] = i
		}
	}
	first := make([]bool, len(parks))
	for lane, i := range lowest {
		j, ok := lowest[checkpoint.Lane{Group: lane.Group}]
		first[i] = !ok || j == i || parks[i].Message.Position.Compare(parks[j].Message.Position) < 0
	}
	return first
}

// ErrorText makes a text out of an error that any database takes: what is no UTF-8, and NUL, is replaced, and the length
// is bounded.
func ErrorText(s string) string {
	if len(s) > MaxErrorText {
		s = s[:MaxErrorText]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1 {
			s = s[:len(s)-1]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
