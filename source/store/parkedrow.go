package store

import (
	"fmt"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A ParkedRow is a row of tailbox_parked, whatever the database is. Parked is the delivery, Content its message. A row has some fields in another
// form, so these stay empty: Parked's Message, Due, NextAttempt and Original, and Content's ID, Position and Fault.
type ParkedRow struct {
	checkpoint.Parked
	Content outbox.Message

	// ID is the id of the user's row for ever. SentID is the id that an edit gave the message, "" for none.
	ID, SentID string
	Position   string
	// Alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
	Alone bool
	// TriedAt is the time of the last try. Next is when the delivery is tried again, and zero if it waits for another one.
	TriedAt, Next time.Time
	// RowSettled: the message's other deliveries are settled, and its row has been dealt with. Unfinished: the row could not be dealt
	// with, because somebody had it locked; it is tried again.
	RowSettled, Unfinished  bool
	FaultClass, FaultReason string
	ParkedAt, ChangedAt     time.Time
}

// Detached reports whether the delivery needs its message's row no more: the row was dealt with, and all of the message is here.
func (r *ParkedRow) Detached() bool { return r.RowSettled && !r.Unfinished && !r.InTable }

// DetachedSQL is Detached as a condition about columns.
const DetachedSQL = "(row_settled AND NOT unfinished AND NOT in_table)"

// A Column binds a column of tailbox_parked to a field of a ParkedRow.
type Column struct {
	Name string
	// To points to the field: a *string, *bool, *int, *int32, *int64, *[]byte, *time.Time, or a JSON.
	To   any
	Kind Kind
	// Null: the column is NULL if the field is empty. Times and byte slices can always be NULL.
	Null bool
	Part Part
}

// A Kind says what the text of a column is.
type Kind int

// Kinds of text.
const (
	Name Kind = iota // a name of ours, in ASCII
	Text             // bytes of an application
	Note             // a text for people
)

// A Part says when a column is read and written.
type Part int

// Parts of a row.
const (
	State   Part = iota // of the delivery: what settlements change
	Content             // of the message: what an edit replaces, and what is read of every row
	Body                // of the message: what an edit replaces, and what is read of whole messages only
)

// Columns are the columns of tailbox_parked but for the pipeline, bound to r. It is the one list of them: the statements of all
// databases are made from it.
func (r *ParkedRow) Columns() []Column {
	m := &r.Content
	return []Column{
		{Name: "sink", To: &r.Sink},
		{Name: "source_table", To: &m.Table, Kind: Text},
		{Name: "message_group", To: &m.Group, Kind: Text},
		{Name: "position", To: &r.Position},
		{Name: "message_id", To: &r.ID, Kind: Text},
		{Name: "state", To: (*string)(&r.State)},
		{Name: "blocks", To: &r.Blocks},
		{Name: "alone", To: &r.Alone},
		{Name: "attempts", To: &r.Attempts},
		{Name: "tries", To: &r.Tries},
		{Name: "failed_epoch", To: &r.Failed.Epoch},
		{Name: "failed_call", To: &r.Failed.Call},
		{Name: "tried_at", To: &r.TriedAt},
		{Name: "next_attempt_at", To: &r.Next},
		{Name: "last_error", To: &r.LastError, Kind: Note, Null: true},
		{Name: "error_class", To: &r.ErrorClass, Null: true},
		{Name: "replays", To: &r.Replays},
		{Name: "row_settled", To: &r.RowSettled},
		{Name: "unfinished", To: &r.Unfinished},
		{Name: "parked_at", To: &r.ParkedAt},
		{Name: "changed_at", To: &r.ChangedAt},
		{Name: "sent_id", To: &r.SentID, Kind: Text, Null: true, Part: Content},
		{Name: "in_table", To: &r.InTable, Part: Content},
		{Name: "type", To: &m.Type, Kind: Text, Part: Content},
		{Name: "topic", To: &m.Topic, Kind: Text, Part: Content},
		{Name: "tenant", To: &m.Tenant, Kind: Text, Null: true, Part: Content},
		{Name: "priority", To: &m.Priority, Part: Content},
		{Name: "fault_class", To: &r.FaultClass, Null: true, Part: Content},
		{Name: "fault_reason", To: &r.FaultReason, Kind: Note, Null: true, Part: Content},
		{Name: "key", To: &m.Key, Part: Body},
		{Name: "payload", To: &m.Payload, Part: Body},
		{Name: "headers", To: (*HeadersColumn)(&m.Headers), Part: Body},
		{Name: "fields", To: (*FieldsColumn)(m), Part: Body},
		{Name: "content_type", To: &m.ContentType, Kind: Text, Null: true, Part: Body},
		{Name: "idempotency_key", To: &m.IdempotencyKey, Kind: Text, Null: true, Part: Body},
		{Name: "correlation_id", To: &m.CorrelationID, Kind: Text, Null: true, Part: Body},
		{Name: "max_attempts", To: &m.MaxAttempts, Part: Body},
		{Name: "available_at", To: &m.AvailableAt, Part: Body},
		{Name: "created_at", To: &m.CreatedAt, Part: Body},
		{Name: "commit_time", To: &m.CommitTime, Part: Body},
	}
}

// Park makes r the row of a delivery that is parked now. It has no time yet. RowSettled: its message's row is dealt with in the same
// settlement.
func (r *ParkedRow) Park(p *checkpoint.Parked, now time.Time, rowSettled bool) {
	*r = ParkedRow{Parked: *p, ID: p.RowID(), Position: p.Message.Position.String(), Alone: Alone(p), RowSettled: rowSettled, ParkedAt: now, ChangedAt: now}
	r.Blocks = p.Blocks && !r.Alone
	r.LastError = ErrorText(p.LastError)
	if p.Tries > 0 {
		r.TriedAt = now
	}
	r.Carry(p)
	r.LeaveInTable(p)
}

// Carry copies into r what an edit can change: the message, its sent id and its fault.
func (r *ParkedRow) Carry(p *checkpoint.Parked) {
	r.Content, r.InTable = *p.Message, p.InTable
	r.SentID, r.FaultClass, r.FaultReason = "", "", ""
	if p.Original != "" {
		r.SentID = r.Content.ID
	}
	if fault := r.Content.Fault; fault != nil {
		r.FaultClass, r.FaultReason = fault.Class, ErrorText(fault.Reason)
	}
}

// LeaveInTable leaves out what is to be read from the user's table again. If a message has a fault, some of it is missing here: its row stays, and a
// replay reads it again, if the row has an id.
func (r *ParkedRow) LeaveInTable(p *checkpoint.Parked) {
	if p.InTable {
		r.Content.Payload = nil
	}
	r.InTable = p.InTable || p.Message.Fault != nil && !outbox.IsStandInID(TableID(p))
}

// Delivery makes a delivery of the row, with its time seen from now.
func (r *ParkedRow) Delivery(now time.Time) (checkpoint.Parked, error) {
	p, m := r.Parked, r.Content
	p.Message, m.ID = &m, r.ID
	if r.SentID != "" {
		m.ID, p.Original = r.SentID, r.ID
	}
	if !r.Next.IsZero() {
		p.Due, p.NextAttempt = true, r.Next.Sub(now)
	}
	if r.FaultClass != "" {
		m.Fault = &outbox.Fault{Class: r.FaultClass, Reason: r.FaultReason}
	}
	var err error
	if m.Position, err = outbox.ParsePosition(r.Position); err != nil {
		return p, r.Unreadable(err)
	}
	return p, nil
}

// RowID is the id of the user's row.
func (r *ParkedRow) RowID() string { return r.ID }

// Key identifies it within its pipeline.
func (r *ParkedRow) Key() checkpoint.Key {
	return checkpoint.Key{Sink: r.Sink, Table: r.Content.Table, ID: r.ID}
}

// MessageKey names its message.
func (r *ParkedRow) MessageKey() MessageKey {
	return MessageKey{Table: r.Content.Table, ID: r.ID}
}

// ParkedKey is its place in the order of requests.
func (r *ParkedRow) ParkedKey() ParkedKey {
	return ParkedKey{Sink: r.Sink, Group: r.Content.Group, Position: r.Position, ID: r.ID, Table: r.Content.Table}
}

// Lane is where it is parked.
func (r *ParkedRow) Lane() checkpoint.Lane {
	return checkpoint.Lane{Sink: r.Sink, Group: r.Content.Group}
}

// Over reports whether nothing is left to do about the delivery itself.
func (r *ParkedRow) Over() bool {
	return r.State == checkpoint.StateDropped || r.State == checkpoint.StateDelivered
}

// Unreadable is the error that the row cannot be read, which only an operator can mend.
func (r *ParkedRow) Unreadable(err error) error {
	return fmt.Errorf("%w: read parked message %s at sink %s: %w", source.ErrStop, r.ID, r.Sink, err)
}

// Listed is the row as operators see it.
func (r *ParkedRow) Listed(now time.Time) (l Listed, err error) {
	l = Listed{ParkedAt: r.ParkedAt, ChangedAt: r.ChangedAt, NextAttemptAt: r.Next}
	l.Parked, err = r.Delivery(now)
	return l, err
}

// JSON is a column of JSON.
type JSON interface {
	// Text writes it; nil is NULL.
	Text() *string
	Read(text *string) error
}

// HeadersColumn is the column of a message's headers.
type HeadersColumn []outbox.Header

// Text implements JSON.
func (c *HeadersColumn) Text() *string { return HeadersJSON(*c) }

// Read implements JSON.
func (c *HeadersColumn) Read(text *string) (err error) {
	*c, err = ParseHeaders(text)
	return err
}

// FieldsColumn is the column of a message's further columns. See FieldsJSON.
type FieldsColumn outbox.Message

// Text implements JSON.
func (c *FieldsColumn) Text() *string { return FieldsJSON((*outbox.Message)(c)) }

// Read implements JSON.
func (c *FieldsColumn) Read(text *string) error {
	c.Fields, c.Binary, c.LongGroup = nil, false, ""
	return ReadFields((*outbox.Message)(c), text)
}
