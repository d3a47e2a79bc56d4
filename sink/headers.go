package sink

import (
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Names of the headers that every delivery carries, on sinks that have headers.
const (
	HeaderID       = "id"
	HeaderType     = "tailbox-type"
	HeaderGroup    = "tailbox-group"
	HeaderPosition = "tailbox-position"
	HeaderAttempt  = "tailbox-attempt"
	HeaderSource   = "tailbox-source"
	// HeaderReplaces names the message that an operator's edit replaced.
	HeaderReplaces = "tailbox-replaces"
)

// MetadataHeaders is how many tailbox-* headers AppendHeaders appends with metadata.
const MetadataHeaders = 5

// ReservedHeader reports whether only tailbox may use a header's name, in any case of letters: a consumer drops duplicates by
// these headers, so one that an application wrote could make it drop others' messages.
func ReservedHeader(name string) bool {
	const prefix = "tailbox-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) || strings.EqualFold(name, HeaderID)
}

// AppendHeaders appends to hs all headers of d in the order of the wire: id, the router's placements, the
// application's own but those whose names are reserved, then (with metadata) the tailbox-* headers.
func AppendHeaders(hs []outbox.Header, d *Delivery, metadata bool) []outbox.Header {
	m := d.Message
	id := d.ID
	if id == nil {
		id = []byte(m.ID)
	}
	hs = append(hs, outbox.Header{Name: HeaderID, Value: id})
	hs = append(hs, d.Headers...)
	for i := range m.Headers {
		if !ReservedHeader(m.Headers[i].Name) {
			hs = append(hs, m.Headers[i])
		}
	}
	if !metadata {
		return hs
	}
	return append(hs,
		outbox.Header{Name: HeaderType, Value: []byte(m.Type)},
		outbox.Header{Name: HeaderGroup, Value: []byte(m.GroupText())},
		outbox.Header{Name: HeaderPosition, Value: m.Position.Append(make([]byte, 0, 34))},
		outbox.Header{Name: HeaderAttempt, Value: strconv.AppendInt(nil, int64(d.Attempt), 10)},
		outbox.Header{Name: HeaderSource, Value: []byte(d.Source)},
	)
}
