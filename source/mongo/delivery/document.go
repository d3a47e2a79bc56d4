// Package delivery reads and writes the documents of tailbox_parked: each is one message for one sink that was not delivered yet.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// MaxSize bounds a document of tailbox_parked, which holds a whole message; the server takes 16 MiB. A larger message is not
	// copied: it is read from the user's table.
	MaxSize = 15 << 20
)

// A Document is a document of tailbox_parked, one a parked delivery.
//
//   - message_id is the id of the user's document for ever, as text; sent_id is the id that an edit gave the delivery.
//   - alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
//   - next_attempt_at is there only if the delivery is to be tried at that time: the first blocking delivery of a lane
//     that neither an operator nor the sink ” holds up, and deliveries that are alone. So the index on it has one entry a
//     lane however many deliveries wait in it.
//   - attempts are the failures that count against the message, tries all of them, tried_at the time of the last one.
//     failed_epoch and failed_call are what the relay notes about that: a term of its own, and the call to the sink.
//   - in_table: what is here is not all of the message; the user's document has it.
//   - row_settled: the message's other deliveries are settled, and its document has been dealt with.
//   - unfinished: the user's document could not be dealt with because a transaction had it locked; it is tried again.
//   - state has two values beside those that operators see: dropped and delivered, kept until the document is dealt with.
type Document struct {
	OID      bson.ObjectID
	Pipeline string
	store.ParkedRow
	// Bytes of the payload, which is left out of most of what is read.
	Bytes int
}

// columns are the fields of the document but for its id, bound to d. A document has a field of its own for what stands in the
// column fields elsewhere.
func (d *Document) columns() []store.Column {
	return append(d.Columns(), store.Column{Name: "pipeline", To: &d.Pipeline}, store.Column{Name: "bytes", To: &d.Bytes},
		store.Column{Name: "long_group", To: &d.Content.LongGroup, Null: true, Part: store.Body},
		store.Column{Name: "binary", To: &d.Content.Binary, Part: store.Body})
}

// A pair is a header or a field. A nil Value is none, or null.
type pair struct {
	Name  string `bson:"name"`
	Value []byte `bson:"value"`
	// Type is outbox.Field's.
	Type outbox.FieldType `bson:"type,omitempty"`
}

// MarshalBSON implements bson.Marshaler.
func (d *Document) MarshalBSON() ([]byte, error) {
	doc := bson.D{{Key: "_id", Value: d.OID}}
	for _, c := range d.columns() {
		if value, ok := fieldValue(&c); ok {
			doc = append(doc, bson.E{Key: c.Name, Value: value})
		}
	}
	return bson.Marshal(doc)
}

// fieldValue is what the document has under the column's name; not ok if it has nothing.
func fieldValue(c *store.Column) (value any, ok bool) {
	switch to := c.To.(type) {
	case *store.HeadersColumn:
		var pairs []pair
		for _, h := range *to {
			pairs = append(pairs, pair{Name: h.Name, Value: h.Value})
		}
		return pairs, pairs != nil
	case *store.FieldsColumn:
		var pairs []pair
		for _, f := range to.Fields {
			if f.Null {
				f.Value = nil
			} else if f.Value == nil {
				f.Value = []byte{}
			}
			pairs = append(pairs, pair{Name: f.Name, Value: f.Value, Type: f.Type})
		}
		return pairs, pairs != nil
	case *time.Time:
		return *to, !to.IsZero()
	case *string:
		return *to, *to != "" || !c.Null
	case *bool:
		return *to, true
	case *int:
		return *to, true
	case *int32:
		return *to, true
	case *int64:
		return *to, true
	case *[]byte:
		return *to, true
	}
	return nil, false
}

// byName are the columns under their names.
func (d *Document) byName() map[string]*store.Column {
	columns := d.columns()
	named := make(map[string]*store.Column, len(columns))
	for i := range columns {
		named[columns[i].Name] = &columns[i]
	}
	return named
}

// UnmarshalBSON implements bson.Unmarshaler.
func (d *Document) UnmarshalBSON(doc []byte) error { return d.read(doc, d.byName()) }

// All reads what a query has found.
func All(ctx context.Context, cur *mongo.Cursor) (out []*Document, err error) {
	defer func() { err = errors.Join(err, cur.Close(ctx)) }()
	var d Document
	columns := d.byName()
	for cur.Next(ctx) {
		if err := d.read(cur.Current, columns); err != nil {
			return nil, err
		}
		found := d
		out = append(out, &found)
	}
	return out, cur.Err()
}

// read fills the document, through its columns.
func (d *Document) read(doc bson.Raw, columns map[string]*store.Column) error {
	elements, err := doc.Elements()
	if err != nil {
		return fmt.Errorf("read parked delivery: %w", err)
	}
	*d = Document{}
	for _, e := range elements {
		if e.Key() == "_id" {
			d.OID, _ = e.Value().ObjectIDOK()
			continue
		}
		c, ok := columns[e.Key()]
		if !ok || e.Value().Type == bson.TypeNull {
			continue
		}
		if err := readValue(c, e.Value()); err != nil {
			return fmt.Errorf("read field %s of parked delivery: %w", e.Key(), err)
		}
	}
	return nil
}

func readValue(c *store.Column, v bson.RawValue) error {
	var number int64
	ok := true
	switch to := c.To.(type) {
	case *store.HeadersColumn:
		var pairs []pair
		if err := v.Unmarshal(&pairs); err != nil {
			return err
		}
		for _, p := range pairs {
			*to = append(*to, outbox.Header{Name: p.Name, Value: p.Value})
		}
	case *store.FieldsColumn:
		var pairs []pair
		if err := v.Unmarshal(&pairs); err != nil {
			return err
		}
		for _, p := range pairs {
			to.Fields = append(to.Fields, outbox.Field{Name: p.Name, Value: p.Value, Null: p.Value == nil, Type: p.Type})
		}
	case *time.Time:
		*to, ok = v.TimeOK()
		*to = to.UTC()
	case *string:
		*to, ok = v.StringValueOK()
	case *bool:
		*to, ok = v.BooleanOK()
	case *[]byte:
		_, *to, ok = v.BinaryOK()
		*to = append([]byte{}, *to...) // what was read belongs to the reply
	case *int:
		number, ok = v.AsInt64OK()
		*to = int(number)
	case *int32:
		number, ok = v.AsInt64OK()
		*to = int32(number)
	case *int64:
		*to, ok = v.AsInt64OK()
	}
	if !ok {
		return fmt.Errorf("it is of type %s", v.Type)
	}
	return nil
}

// BareFields leaves the body of messages out of what is read.
func BareFields() bson.D {
	var d bson.D
	for _, c := range new(Document).columns() {
		if c.Part == store.Body {
			d = append(d, bson.E{Key: c.Name, Value: 0})
		}
	}
	return d
}

// New is a delivery as it is stored, parked now. Its time is left out.
func New(pipeline string, p *checkpoint.Parked, now time.Time, rowSettled bool) *Document {
	d := &Document{OID: bson.NewObjectID(), Pipeline: pipeline}
	d.Park(p, now, rowSettled)
	d.Fit(p)
	return d
}

// Fit cuts the message to what a document holds.
func (d *Document) Fit(p *checkpoint.Parked) {
	d.LeaveInTable(p)
	m := &d.Content
	if size := p.Message.Size(); size > MaxSize {
		d.InTable = true
		if size-len(p.Message.Payload) > MaxSize { // as JSON, a document that is placed can be larger than the one it was in
			m.Fields, m.ContentType, m.IdempotencyKey, m.CorrelationID = nil, "", "", ""
		}
		m.Payload = nil
	}
	d.Bytes = len(m.Payload)
}

// Ref is what is known of the delivery without its message.
func (d *Document) Ref() store.ParkedRef {
	return store.ParkedRef{Key: d.Key(), Position: d.Position, Priority: d.Content.Priority, Next: d.Next, TriedAt: d.TriedAt, Bytes: d.Bytes,
		Dead: d.State == checkpoint.StateDead, Ref: d.OID}
}
