package http

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

// defaultEventType stands in for a message without a type, which CloudEvents does not allow.
const defaultEventType = "tailbox.message"

// appendCloudEvent appends d as a CloudEvent 1.0 in JSON:
//
//   - id, type, time (of the commit, or where the router placed one) and datacontenttype are the message's; source is
//     "tailbox/" and the pipeline's name.
//   - partitionkey is the key where it is text, else the group; sequence is the position, whose texts sort in order.
//   - data is the payload that is JSON, or text; data_base64 any other; a NULL has neither.
//   - Each header whose name, in lower case and without - _ and ., is free and at most 20 letters and digits becomes an
//     attribute of that name (trace-id is traceid). tailboxheaders holds all headers unchanged, as JSON text.
//   - With metadata: tailboxgroup, tailboxtopic, tailboxposition, tailboxattempt.
func appendCloudEvent(b []byte, d *sink.Delivery, metadata bool) []byte {
	m := d.Message
	b = sink.AppendString(append(b, `{"specversion":"1.0","id":`...), m.ID)
	b = append(b, `,"source":`...)
	b = sink.AppendString(b, "tailbox/"+d.Source)
	kind := m.Type
	if kind == "" {
		kind = defaultEventType
	}
	b = sink.AppendString(append(b, `,"type":`...), kind)
	at := d.Timestamp
	if at.IsZero() {
		at = m.CommitTime
	}
	if !at.IsZero() {
		b = append(b, `,"time":"`...)
		b = at.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	switch {
	case len(d.Key) > 0 && utf8.Valid(d.Key):
		b = sink.AppendString(append(b, `,"partitionkey":`...), d.Key)
	case m.Group != "":
		b = sink.AppendString(append(b, `,"partitionkey":`...), m.GroupText())
	}
	b = m.Position.Append(append(b, `,"sequence":"`...))
	b = append(b, '"')
	if metadata {
		b = appendMetadata(b, d)
	}
	b = appendExtensions(b, d.Headers, m.Headers)
	return append(appendData(b, d), '}')
}

func appendMetadata(b []byte, d *sink.Delivery) []byte {
	if d.Message.Group != "" {
		b = sink.AppendString(append(b, `,"tailboxgroup":`...), d.Message.GroupText())
	}
	if d.Topic != "" {
		b = sink.AppendString(append(b, `,"tailboxtopic":`...), d.Topic)
	}
	b = d.Message.Position.Append(append(b, `,"tailboxposition":"`...))
	b = append(b, `","tailboxattempt":`...)
	return strconv.AppendInt(b, int64(d.Attempt), 10)
}

// appendExtensions appends headers, each as an attribute where it can be one, and all of them as they are.
func appendExtensions(b []byte, lists ...[]outbox.Header) []byte {
	taken := make([]string, 0, 8)
	some := false
	for _, list := range lists {
		for i := range list {
			some = true
			name := extension(list[i].Name)
			if name == "" || list[i].Value == nil || !utf8.Valid(list[i].Value) || slices.Contains(taken, name) {
				continue
			}
			taken = append(taken, name)
			b = sink.AppendString(append(b, ','), name)
			b = sink.AppendString(append(b, ':'), list[i].Value)
		}
	}
	if some {
		text := sink.AppendHeaderObject(nil, lists...)
		b = sink.AppendString(append(b, `,"tailboxheaders":`...), text)
	}
	return b
}

// extension is the name of the attribute for a header, or "" if there can be none.
func extension(header string) string {
	name := make([]byte, 0, 20)
	for i := range len(header) {
		c := header[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' || c == '_' || c == '.':
			continue
		default:
			return ""
		}
		name = append(name, c)
	}
	if len(name) > 20 {
		return ""
	}
	switch string(name) {
	case "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data",
		"database64", "partitionkey", "sequence", "tailboxgroup", "tailboxtopic", "tailboxposition", "tailboxattempt",
		"tailboxheaders":
		return ""
	}
	return string(name)
}

func appendData(b []byte, d *sink.Delivery) []byte {
	v := d.Value
	if v == nil {
		return b
	}
	kind := d.Message.ContentType
	text := utf8.Valid(v)
	// In an event whose content is not JSON, data that is text has to be a string.
	json := text && (kind == "" || isJSONType(kind)) && sink.IsJSON(v)
	switch {
	case kind != "":
	case json:
		kind = "application/json"
	case text:
		kind = "text/plain"
	default:
		kind = "application/octet-stream"
	}
	b = sink.AppendString(append(b, `,"datacontenttype":`...), kind)
	switch {
	case json:
		return append(append(b, `,"data":`...), v...)
	case text:
		return sink.AppendString(append(b, `,"data":`...), v)
	}
	return sink.AppendBase64(append(b, `,"data_base64":`...), v)
}

// isJSONType reports whether a media type is JSON: its subtype is json, or ends with +json.
func isJSONType(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}
