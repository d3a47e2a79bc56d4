package outboxmongo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
)

// maxDocument is below what a document may have, so that the event about it stays within the same bound.
const maxDocument = 16<<20 - 16<<10

// A document is a draft that can be written.
type document struct {
	id, key string
	// given: the id is the application's own.
	given, once bool
	raw         bson.Raw
}

func (w *Writer) refuse(field, format string, args ...any) error {
	return &outbox.DraftError{Table: strings.TrimPrefix(w.table.String(), "."), Field: field, Reason: fmt.Sprintf(format, args...)}
}

// document checks a draft, and makes a document of it.
func (w *Writer) document(d *outbox.Draft) (*document, error) {
	c := &w.table.Columns
	values, err := w.table.Values(d)
	if err != nil {
		return nil, err
	}
	if d.Once && !w.keyed {
		return nil, w.refuse("Once", "needs a unique index on %s alone, and there was none when the writer was made", c.IdempotencyKey)
	}
	doc := &document{id: d.ID, key: d.IdempotencyKey, given: d.ID != "", once: d.Once}
	var fields bson.D
	set := func(column string, v any) {
		if column != "" && !slices.ContainsFunc(fields, func(e bson.E) bool { return e.Key == column }) {
			fields = append(fields, bson.E{Key: column, Value: v})
		}
	}
	switch {
	case doc.given:
	case w.options.NewID != nil:
		if doc.id = w.options.NewID(); doc.id == "" || !utf8.ValidString(doc.id) || len(doc.id) > outbox.MaxIndexed {
			return nil, w.refuse("ID", "from Options.NewID is %.50q: it is UTF-8 of 1 to %d bytes", doc.id, outbox.MaxIndexed)
		}
		set(c.ID, doc.id)
	default:
		id := bson.NewObjectID()
		doc.id = id.Hex()
		set(c.ID, id)
	}
	size := 0
	for _, v := range values {
		value, n, err := w.value(v)
		if err != nil {
			return nil, err
		}
		size += n
		set(v.Column, value)
	}
	if size > w.options.MaxMessage {
		return nil, w.refuse("Payload", "and the rest of the message have %d bytes, and may have %d: write a reference to the data in place of it, "+
			"or raise Options.MaxMessage together with the relay's max_message", size, w.options.MaxMessage)
	}
	set(c.Status, w.table.Words.Value(w.table.Words.Pending))
	set(c.Attempts, int32(0))
	set(c.Failures, int32(0))
	set(c.CreatedAt, time.Now())
	if doc.raw, err = bson.Marshal(fields); err != nil {
		return nil, w.refuse("Fields", "cannot be written as BSON: %v", err)
	}
	if len(doc.raw) > maxDocument {
		return nil, w.refuse("Payload", "makes a document of %d bytes, and MongoDB takes %d: write a reference to the data in place of it", len(doc.raw), maxDocument)
	}
	return doc, nil
}

// value is a value as BSON has it: texts are strings, a payload that is no UTF-8 is binary, and headers are a document.
func (w *Writer) value(v outbox.Value) (value any, size int, err error) {
	switch x := v.Value.(type) {
	case string:
		if !utf8.ValidString(x) {
			return nil, 0, w.refuse(v.Field, "is not UTF-8: encode it")
		}
		return x, len(x), nil
	case []byte:
		if utf8.Valid(x) {
			return string(x), len(x), nil
		}
		return x, len(x), nil
	case map[string]string:
		headers := bson.D{}
		for _, name := range slices.Sorted(maps.Keys(x)) {
			if !utf8.ValidString(name) || !utf8.ValidString(x[name]) || strings.Contains(name, "\x00") {
				return nil, 0, w.refuse(v.Field, "have %q, which is not UTF-8, or whose name has a zero byte: encode it", name)
			}
			headers, size = append(headers, bson.E{Key: name, Value: x[name]}), size+len(name)+len(x[name])
		}
		return headers, size, nil
	}
	return v.Value, 0, nil
}

// idText is the text by which the relay knows an id.
func idText(v bson.RawValue) string {
	switch v.Type {
	case bson.TypeObjectID:
		return v.ObjectID().Hex()
	case bson.TypeString:
		return v.StringValue()
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(v.AsInt64(), 10)
	case bson.TypeBinary:
		if subtype, b := v.Binary(); len(b) == 16 && (subtype == bson.TypeBinaryUUID || subtype == bson.TypeBinaryUUIDOld) {
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
		}
	}
	return v.String()
}
