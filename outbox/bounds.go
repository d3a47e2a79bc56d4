package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Bounds of what stands beside the payload of a message, in bytes. A message beyond one of them is a dead letter: each of its parts stands
// in lists, logs, indexes or the memory of sinks, and one row must not fill them.
const (
	// MaxIndexed is for an ID, a Type, a Tenant, and for the Group by which tailbox keeps a lane. The relay's tables are indexed by ID and Group,
	// and an index of Postgres takes 2,700 bytes, one of MySQL 3,072.
	MaxIndexed = 1 << 10
	// MaxGroup is for the group that the application wrote, for a Key, and for all other texts: a Topic, of which each sink takes less, ContentType,
	// IdempotencyKey and CorrelationID.
	MaxGroup = 64 << 10
	// MaxHeaders is the number of headers.
	MaxHeaders = 100
	// MaxHeaderBytes is for the names and values of all headers together.
	MaxHeaderBytes = 64 << 10
	// MaxHeaderName is for the name of one header.
	MaxHeaderName = 256
)

// headOf is how much of a long group stands in the name of its lane.
const headOf = 200

// SetGroup sets the group that the application wrote. One that is too long to be indexed has its lane by StandInGroup, and
// goes with the message as it is. Over: it is longer than MaxGroup, so that the message needs a Fault.
func (m *Message) SetGroup(group string) (over bool) {
	switch {
	case len(group) <= MaxIndexed:
		m.Group = group
	case len(group) <= MaxGroup:
		m.Group, m.LongGroup = StandInGroup(group), group
	default:
		m.Group, over = StandInGroup(group), true
	}
	return over
}

// GroupText is the group as the application wrote it.
func (m *Message) GroupText() string {
	if m.LongGroup != "" {
		return m.LongGroup
	}
	return m.Group
}

// StandInGroup names the lane of a group that is longer than MaxIndexed: its beginning, and a hash of it, so that messages
// of one group stay in one lane. It adds nothing but ASCII, which every database can write. Of a group beyond MaxGroup no more than that is
// hashed, because nobody reads the rest of it in a row that is too large: its messages are all dead letters, and may wait for one another.
func StandInGroup(group string) string {
	sum := sha256.Sum256([]byte(group[:min(len(group), MaxGroup+1)]))
	return cut(group, headOf) + "..." + hex.EncodeToString(sum[:16])
}

// cut is at most so many bytes of a text, without half a character.
func cut(text string, most int) string { return strings.ToValidUTF8(text[:min(len(text), most)], "") }

// Shorten is a text as errors and logs may show it: at most 200 bytes of it, and the size of one that is longer.
func Shorten(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", cut(text, most), len(text))
}

// A Part is a part of a message that is beyond its bound.
type Part struct {
	// Name is that of the part in the configuration's `columns`, such as type.
	Name string
	// Why says how large it is, and how large it may be.
	Why string
}

// Bound cuts what is beyond its bound, and names the first such part; nil if there is none. Of a type the beginning stays, so that people see what it
// was; the others go. ID, Group and Headers are not its affair: those who read them bound them, because a row without an ID needs another one, and
// headers are counted before there is memory for all of them.
func (m *Message) Bound() *Part {
	if len(m.Type) <= MaxIndexed && len(m.Tenant) <= MaxIndexed && len(m.Topic) <= MaxGroup && len(m.Key) <= MaxGroup && len(m.ContentType) <= MaxGroup &&
		len(m.IdempotencyKey) <= MaxGroup && len(m.CorrelationID) <= MaxGroup {
		return nil
	}
	var first *Part
	over := func(name string, size, most int) bool {
		if size > most && first == nil {
			first = &Part{name, fmt.Sprintf("it has %d bytes, and may have %d", size, most)}
		}
		return size > most
	}
	if over("type", len(m.Type), MaxIndexed) {
		m.Type = cut(m.Type, headOf-3) + "..."
	}
	if over("tenant", len(m.Tenant), MaxIndexed) {
		m.Tenant = ""
	}
	if over("key", len(m.Key), MaxGroup) {
		m.Key = nil
	}
	for _, part := range []struct {
		name string
		text *string
	}{{"topic", &m.Topic}, {"content_type", &m.ContentType}, {"idempotency_key", &m.IdempotencyKey}, {"correlation_id", &m.CorrelationID}} {
		if over(part.name, len(*part.text), MaxGroup) {
			*part.text = ""
		}
	}
	return first
}

// HeaderBounds adds up the headers of one message while they are read. The zero value is empty.
type HeaderBounds struct{ n, bytes int }

// Add counts a header. The error says which bound the headers are beyond by now.
func (b *HeaderBounds) Add(h *Header) error {
	b.n++
	b.bytes += len(h.Name) + len(h.Value)
	switch {
	case b.n > MaxHeaders:
		return fmt.Errorf("there are more than %d headers", MaxHeaders)
	case len(h.Name) > MaxHeaderName:
		return fmt.Errorf("the name of a header has %d bytes, and may have %d", len(h.Name), MaxHeaderName)
	case b.bytes > MaxHeaderBytes:
		return fmt.Errorf("names and values of the headers have more than %d bytes", MaxHeaderBytes)
	}
	return nil
}
