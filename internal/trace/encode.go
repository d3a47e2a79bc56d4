package trace

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tailbox/tailbox/outbox"
)

// Numbers of fields in opentelemetry/proto/trace/v1, common/v1 and collector/trace/v1, as far as tailbox writes or reads them.
const (
	requestResourceSpans = 1

	resourceSpansResource, resourceSpansScopeSpans = 1, 2
	resourceAttributes                             = 1
	scopeSpansScope, scopeSpansSpans               = 1, 2
	scopeName, scopeVersion                        = 1, 2

	spanTraceID, spanSpanID, spanState, spanParent = 1, 2, 3, 4
	spanName, spanKind, spanStart, spanEnd         = 5, 6, 7, 8
	spanAttributes, spanStatus, spanFlags          = 9, 15, 16

	statusCode                     = 3
	keyValueKey, keyValueValue     = 1, 2
	valueText, valueInt, valueReal = 1, 3, 4

	responsePartialSuccess, partialSuccessRejected = 1, 1

	kindProducer = 4
	statusError  = 2
	// flagSampled is W3C's. The other two say that it is known whether the parent is in another process, and that it is.
	flagSampled, flagHasRemote, flagRemote = 0x1, 0x100, 0x200
)

// A span is one attempt of a delivery.
type span struct {
	trace      traceID
	id         spanID
	parent     *parent
	name       string
	start, end time.Time
	failed     bool
}

// appendSpan appends a span without its attributes, which follow.
func appendSpan(b []byte, s *span) []byte {
	b = appendBytes(b, spanTraceID, s.trace[:])
	b = appendBytes(b, spanSpanID, s.id[:])
	flags := uint32(flagSampled | flagHasRemote)
	if s.parent != nil {
		flags |= flagRemote
		if s.parent.state != "" {
			b = appendString(b, spanState, s.parent.state)
		}
		b = appendBytes(b, spanParent, s.parent.span[:])
	}
	b = appendString(b, spanName, s.name)
	b = protowire.AppendVarint(protowire.AppendTag(b, spanKind, protowire.VarintType), kindProducer)
	b = protowire.AppendFixed64(protowire.AppendTag(b, spanStart, protowire.Fixed64Type), uint64(s.start.UnixNano()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, spanEnd, protowire.Fixed64Type), uint64(s.end.UnixNano()))
	if s.failed {
		const size = 2
		b = protowire.AppendVarint(protowire.AppendTag(b, spanStatus, protowire.BytesType), size)
		b = protowire.AppendVarint(protowire.AppendTag(b, statusCode, protowire.VarintType), statusError)
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, spanFlags, protowire.Fixed32Type), flags)
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func appendString(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
}

// An attribute is one name with a text.
type attribute struct{ key, value string }

// appendKey appends the beginning of an attribute whose value has so many bytes.
func appendKey(b []byte, field protowire.Number, key string, size int) []byte {
	all := protowire.SizeTag(keyValueKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(keyValueValue) + protowire.SizeBytes(size)
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(all))
	b = appendString(b, keyValueKey, key)
	return protowire.AppendVarint(protowire.AppendTag(b, keyValueValue, protowire.BytesType), uint64(size))
}

func appendText(b []byte, field protowire.Number, key, value string) []byte {
	b = appendKey(b, field, key, protowire.SizeTag(valueText)+protowire.SizeBytes(len(value)))
	return appendString(b, valueText, value)
}

func appendInt(b []byte, field protowire.Number, key string, value int64) []byte {
	b = appendKey(b, field, key, protowire.SizeTag(valueInt)+protowire.SizeVarint(uint64(value)))
	return protowire.AppendVarint(protowire.AppendTag(b, valueInt, protowire.VarintType), uint64(value))
}

func appendReal(b []byte, field protowire.Number, key string, value float64) []byte {
	b = appendKey(b, field, key, protowire.SizeTag(valueReal)+protowire.SizeFixed64())
	return protowire.AppendFixed64(protowire.AppendTag(b, valueReal, protowire.Fixed64Type), math.Float64bits(value))
}

// short is a text as a span may hold it: bounded, because an application may write anything into a row, and UTF-8.
func short(text string) string { return strings.ToValidUTF8(outbox.Shorten(text), "�") }

// envelope returns what stands before the spans of a request: what sends them.
func envelope(resource []attribute, version string) (resourceBytes, scope []byte) {
	for _, a := range resource {
		resourceBytes = appendText(resourceBytes, resourceAttributes, strings.ToValidUTF8(a.key, "�"), strings.ToValidUTF8(a.value, "�"))
	}
	return resourceBytes, appendString(appendString(nil, scopeName, "github.com/tailbox/tailbox"), scopeVersion, version)
}

// appendRequest appends an ExportTraceServiceRequest with encoded spans.
func appendRequest(b, resource, scope []byte, spans [][]byte) []byte {
	group := protowire.SizeTag(scopeSpansScope) + protowire.SizeBytes(len(scope))
	for _, s := range spans {
		group += protowire.SizeTag(scopeSpansSpans) + protowire.SizeBytes(len(s))
	}
	all := protowire.SizeTag(resourceSpansResource) + protowire.SizeBytes(len(resource)) + protowire.SizeTag(resourceSpansScopeSpans) + protowire.SizeBytes(group)
	b = protowire.AppendVarint(protowire.AppendTag(b, requestResourceSpans, protowire.BytesType), uint64(all))
	b = appendBytes(b, resourceSpansResource, resource)
	b = protowire.AppendVarint(protowire.AppendTag(b, resourceSpansScopeSpans, protowire.BytesType), uint64(group))
	b = appendBytes(b, scopeSpansScope, scope)
	for _, s := range spans {
		b = appendBytes(b, scopeSpansSpans, s)
	}
	return b
}

// rejected reads from an ExportTraceServiceResponse how many spans the collector did not take.
func rejected(response []byte) int {
	inner, _ := lastOf(response, responsePartialSuccess, protowire.BytesType)
	_, n := lastOf(inner, partialSuccessRejected, protowire.VarintType)
	return int(min(n, math.MaxInt32))
}

// lastOf returns the last value of a field, bytes or a number. What cannot be read has none.
func lastOf(b []byte, field protowire.Number, kind protowire.Type) (value []byte, number uint64) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, 0
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, typ, b)
		if size < 0 {
			return nil, 0
		}
		if num == field && typ == kind {
			if kind == protowire.BytesType {
				value, _ = protowire.ConsumeBytes(b)
			} else {
				number, _ = protowire.ConsumeVarint(b)
			}
		}
		b = b[size:]
	}
	return value, number
}
