package mongo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// maxParked bounds a document of tailbox_parked, which holds a whole message; the server takes 16 MiB. A larger message is not
	// copied: it is read from the user's table.
	maxParked = 15 << 20
)

// A parkedDocument is a document of tailbox_parked, one a parked delivery.
//
//   - message_id is the id of the user's document for ever, as text; sent_id is the id that an edit gave the delivery.
//   - alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
//   - next_attempt_at is there only where the delivery is to be tried at that time: the first blocking delivery of a lane
//     that neither an operator nor the sink ” holds up, and deliveries that are alone. So the index on it has one entry a
//     lane however many deliveries wait in it.
//   - attempts are the failures that count against the message, tries all of them, tried_at the time of the last one.
//     failed_epoch and failed_call are what the relay notes about that: a term of its own, and the call to the sink.
//   - in_table: what is here is not all of the message; the user's document has it.
//   - row_settled: the message's other deliveries are settled, and its document has been dealt with.
//   - unfinished: the user's document could not be dealt with because a transaction had it locked; it is tried again.
//   - state has two values beside those that operators see: dropped and delivered, kept until the document is dealt with.
type parkedDocument struct {
	view
	message
}

// MarshalBSON implements bson.Marshaler: both parts are one document.
func (d *parkedDocument) MarshalBSON() ([]byte, error) {
	doc, err := bson.Marshal(&d.view)
	if err != nil {
		return nil, err
	}
	rest, err := bson.Marshal(&d.message)
	if err != nil {
		return nil, err
	}
	doc = append(doc[:len(doc)-1], rest[4:]...)
	binary.LittleEndian.PutUint32(doc, uint32(len(doc)))
	return doc, nil
}

// UnmarshalBSON implements bson.Unmarshaler.
func (d *parkedDocument) UnmarshalBSON(doc []byte) error {
	return errors.Join(bson.Unmarshal(doc, &d.view), bson.Unmarshal(doc, &d.message))
}

// A view is what is looked up of parked deliveries, without the message.
type view struct {
	OID         bson.ObjectID    `bson:"_id"`
	Pipeline    string           `bson:"pipeline"`
	Sink        string           `bson:"sink"`
	Table       string           `bson:"source_table"`
	Group       string           `bson:"message_group"`
	Position    string           `bson:"position"`
	ID          string           `bson:"message_id"`
	State       checkpoint.State `bson:"state"`
	Blocks      bool             `bson:"blocks"`
	Alone       bool             `bson:"alone"`
	Attempts    int              `bson:"attempts"`
	Tries       int              `bson:"tries"`
	FailedEpoch int64            `bson:"failed_epoch"`
	FailedCall  int64            `bson:"failed_call"`
	TriedAt     *time.Time       `bson:"tried_at,omitempty"`
	Next        *time.Time       `bson:"next_attempt_at,omitempty"`
	LastError   string           `bson:"last_error,omitempty"`
	ErrorClass  string           `bson:"error_class,omitempty"`
	Replays     int              `bson:"replays"`
	SentID      string           `bson:"sent_id,omitempty"`
	InTable     bool             `bson:"in_table"`
	RowSettled  bool             `bson:"row_settled"`
	Unfinished  bool             `bson:"unfinished,omitempty"`
	Bytes       int              `bson:"bytes"` // of the payload
	Type        string           `bson:"type"`
	ParkedAt    time.Time        `bson:"parked_at"`
	ChangedAt   time.Time        `bson:"changed_at"`
	FaultClass  string           `bson:"fault_class,omitempty"`
	FaultReason string           `bson:"fault_reason,omitempty"`
	Priority    int32            `bson:"priority"`
}

// message is the rest of the message.
type message struct {
	Topic          string     `bson:"topic"`
	LongGroup      string     `bson:"long_group,omitempty"`
	Key            []byte     `bson:"key"`
	Payload        []byte     `bson:"payload"`
	Binary         bool       `bson:"binary,omitempty"`
	Headers        []pair     `bson:"headers,omitempty"`
	Fields         []pair     `bson:"fields,omitempty"`
	Tenant         string     `bson:"tenant,omitempty"`
	ContentType    string     `bson:"content_type,omitempty"`
	IdempotencyKey string     `bson:"idempotency_key,omitempty"`
	CorrelationID  string     `bson:"correlation_id,omitempty"`
	MaxAttempts    int32      `bson:"max_attempts"`
	AvailableAt    *time.Time `bson:"available_at,omitempty"`
	CreatedAt      *time.Time `bson:"created_at,omitempty"`
	CommitTime     *time.Time `bson:"commit_time,omitempty"`
}

// A pair is a header or a field. A nil Value is none, or null.
type pair struct {
	Name  string `bson:"name"`
	Value []byte `bson:"value"`
	// Type is outbox.Field's.
	Type outbox.FieldType `bson:"type,omitempty"`
}

// viewFields leaves the message out of what is read.
func viewFields() bson.D {
	var d bson.D
	for _, name := range messageFields() {
		d = append(d, bson.E{Key: name, Value: 0})
	}
	return d
}

// messageFields are the names of the fields of message.
func messageFields() []string {
	return []string{"topic", "long_group", "key", "payload", "binary", "headers", "fields", "tenant", "content_type", "idempotency_key", "correlation_id",
		"max_attempts", "available_at", "created_at", "commit_time"}
}

func (v *view) messageKey() store.MessageKey { return store.MessageKey{Table: v.Table, ID: v.ID} }
func (v *view) key() checkpoint.Key          { return checkpoint.Key{Sink: v.Sink, Table: v.Table, ID: v.ID} }
func (v *view) over() bool {
	return v.State == checkpoint.StateDropped || v.State == checkpoint.StateDelivered
}

// documentOfParked is a delivery as it is stored, parked now. Its time is left out.
func (s *stateStore) documentOfParked(p *checkpoint.Parked, now time.Time, rowSettled bool) *parkedDocument {
	m, isAlone := p.Message, store.Alone(p)
	d := &parkedDocument{view: view{OID: bson.NewObjectID(), Pipeline: s.cfg.Pipeline, Sink: p.Sink, Table: m.Table, Group: m.Group,
		Position: m.Position.String(), ID: p.RowID(), State: p.State, Blocks: p.Blocks && !isAlone, Alone: isAlone, Attempts: p.Attempts,
		Tries: p.Tries, FailedEpoch: p.Failed.Epoch, FailedCall: p.Failed.Call,
		LastError: store.ErrorText(p.LastError), ErrorClass: p.ErrorClass, Replays: p.Replays, RowSettled: rowSettled, ParkedAt: now, ChangedAt: now}}
	if p.Tries > 0 {
		d.TriedAt = &now
	}
	d.setMessage(p)
	return d
}

// setMessage puts in what the delivery carries.
func (d *parkedDocument) setMessage(p *checkpoint.Parked) {
	m := p.Message
	d.SentID, d.FaultClass, d.FaultReason = "", "", ""
	if p.Original != "" {
		d.SentID = m.ID
	}
	if m.Fault != nil {
		d.FaultClass, d.FaultReason = m.Fault.Class, store.ErrorText(m.Fault.Reason)
	}
	d.Type, d.Priority = m.Type, m.Priority
	d.message = message{Topic: m.Topic, LongGroup: m.LongGroup, Key: m.Key, Payload: m.Payload, Binary: m.Binary, Tenant: m.Tenant, ContentType: m.ContentType,
		IdempotencyKey: m.IdempotencyKey, CorrelationID: m.CorrelationID, MaxAttempts: m.MaxAttempts,
		AvailableAt: orNil(m.AvailableAt), CreatedAt: orNil(m.CreatedAt), CommitTime: orNil(m.CommitTime)}
	for _, h := range m.Headers {
		d.Headers = append(d.Headers, pair{Name: h.Name, Value: h.Value})
	}
	for _, f := range m.Fields {
		if f.Null {
			f.Value = nil
		} else if f.Value == nil {
			f.Value = []byte{}
		}
		d.Fields = append(d.Fields, pair{Name: f.Name, Value: f.Value, Type: f.Type})
	}
	// A message with a fault is not all here: its document stays, and a replay reads it again.
	large := m.Size() > maxParked
	d.InTable = p.InTable || m.Fault != nil && !outbox.IsStandInID(store.TableID(p)) || large
	if p.InTable || large {
		d.Payload = nil
	}
	if large && m.Size()-len(m.Payload) > maxParked { // as JSON, a document that is placed can be larger than the one it was in
		d.Fields, d.ContentType, d.IdempotencyKey, d.CorrelationID = nil, "", "", ""
	}
	d.Bytes = len(d.Payload)
}

// parked makes a delivery of the document, with its time seen from now.
func (d *parkedDocument) parked(now time.Time) (checkpoint.Parked, error) {
	m := &outbox.Message{ID: d.ID, Type: d.Type, Topic: d.Topic, Group: d.Group, LongGroup: d.LongGroup, Key: d.Key, Payload: d.Payload, Binary: d.Binary,
		Tenant: d.Tenant, ContentType: d.ContentType, IdempotencyKey: d.IdempotencyKey, CorrelationID: d.CorrelationID, Priority: d.Priority,
		MaxAttempts: d.MaxAttempts, AvailableAt: orZero(d.AvailableAt), CreatedAt: orZero(d.CreatedAt), CommitTime: orZero(d.CommitTime),
		Table: d.Table}
	for _, h := range d.Headers {
		m.Headers = append(m.Headers, outbox.Header{Name: h.Name, Value: h.Value})
	}
	for _, f := range d.Fields {
		m.Fields = append(m.Fields, outbox.Field{Name: f.Name, Value: f.Value, Null: f.Value == nil, Type: f.Type})
	}
	p := checkpoint.Parked{Sink: d.Sink, Message: m, State: d.State, Blocks: d.Blocks, Attempts: d.Attempts, LastError: d.LastError,
		Tries: d.Tries, Failed: checkpoint.Failure{Epoch: d.FailedEpoch, Call: d.FailedCall},
		ErrorClass: d.ErrorClass, Replays: d.Replays, InTable: d.InTable}
	if d.Next != nil {
		p.Due, p.NextAttempt = true, d.Next.Sub(now)
	}
	if d.SentID != "" {
		m.ID, p.Original = d.SentID, d.ID
	}
	if d.FaultClass != "" {
		m.Fault = &outbox.Fault{Class: d.FaultClass, Reason: d.FaultReason}
	}
	var err error
	if m.Position, err = outbox.ParsePosition(d.Position); err != nil {
		return p, fmt.Errorf("%w: read parked message %s at sink %s: %w", source.ErrStop, d.ID, d.Sink, err)
	}
	return p, nil
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
