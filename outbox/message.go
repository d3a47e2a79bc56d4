package outbox

import (
	"strings"
	"time"
)

// A Message is one row of an outbox table, as the log delivered it.
//
// A message and everything it points to is immutable once its source emitted it, and may be shared by goroutines.
// Its strings and byte slices may point into one larger chunk of memory that the garbage collector frees as a whole;
// what is kept for long is copied.
type Message struct {
	// ID identifies the message for ever: every delivery of it carries the same ID. It is the text of the id column
	// (uuid, text or bigint) of at most MaxIndexed bytes, or StandInID where the row has none.
	ID string
	// Type says what kind of message this is, such as OrderPlaced. Routes usually match on it.
	Type string
	// Topic is the column that names a destination; in the shape debezium it is the aggregate type.
	Topic string
	// Group is the message group: messages of one group are first delivered in commit order. Empty means no group, and no
	// order. It has at most MaxIndexed bytes, because tailbox keeps its lanes by it: see LongGroup.
	Group string
	// LongGroup is the group as the application wrote it if that is longer than MaxIndexed; Group is StandInGroup then. Use GroupText for what
	// consumers see.
	LongGroup string
	// Key is the key for sinks that have one; nil means none.
	Key []byte
	// Payload is the message's body, byte for byte as the application wrote it. Nil is SQL NULL, which is not the same as
	// empty.
	Payload []byte
	// Binary: the payload's column holds bytes, not text, whatever they look like.
	Binary bool
	// Headers are the application's own headers, in the order of the column's text.
	Headers []Header

	Tenant         string
	ContentType    string
	IdempotencyKey string
	CorrelationID  string
	Priority       int32
	// MaxAttempts overrides the route's limit when it is above 0.
	MaxAttempts int32
	// AvailableAt is the earliest time of delivery; zero means at once.
	AvailableAt time.Time
	// CreatedAt is the application's own time of writing; zero if the table has no such column.
	CreatedAt time.Time

	// Table is the qualified name of the table the row was written to, such as public.outbox.
	Table string
	// Fields are further columns that the router's configuration asks for, by name.
	Fields []Field

	// Position is where the message stands in the log. It never changes for a message.
	Position Position
	// CommitTime is when the transaction committed, by the server's clock. A row found by a sweep has the time of the
	// sweep.
	CommitTime time.Time
	// Txn names the inserting transaction in the words of the source's own store, which needs it to tell a row that is not
	// visible yet from one that is gone. 0 means that the row is known to be visible.
	Txn uint64

	// Fault says why the row cannot be delivered as it is; nil for nearly all.
	Fault *Fault
}

// A Header is one name and value. A nil Value is a header without a value, where a sink can tell.
type Header struct {
	Name  string
	Value []byte
}

// A Fault is the reason why a row that was read cannot be delivered. Such a message is parked or dead, never skipped.
type Fault struct {
	// Class is one of the Fault constants.
	Class string
	// Reason is a sentence for the operator, with the fix. It never holds payload bytes.
	Reason string
}

// Scheduled reports whether the message was to wait when it was committed, by the database's clock: it stands outside the order of its group. A time that
// was not in the future then, such as a column's default now(), takes nothing out of its order.
func (m *Message) Scheduled() bool { return m.AvailableAt.After(m.CommitTime) }

// standIn begins the ID of a message whose row has none.
const standIn = "tailbox-no-id:"

// StandInID is the ID of a message whose row has none (it is NULL, empty or unreadable): it is made of the row's place,
// so that reading the row again gives the same. Such a message has a Fault, and its row cannot be found by its ID.
func StandInID(place string) string { return standIn + place }

// IsStandInID reports whether an ID was made by StandInID.
func IsStandInID(id string) bool { return strings.HasPrefix(id, standIn) }

// Classes of a Fault.
const (
	// FaultUndecodable: a column could not be understood. What could be read is filled in.
	FaultUndecodable = "undecodable"
	// FaultTooLarge: the row is larger than max_message. Payload is nil; the row stays in the user's table.
	FaultTooLarge = "too_large"
)

// messageOverhead is what one message costs in memory beside its own bytes: its struct, its deliveries and their places
// in lanes and tracker, measured with a heap profile and rounded up.
const messageOverhead = 640

// Size is the number of bytes of memory that the message stands for in the bound `memory`.
func (m *Message) Size() int { return messageOverhead + m.Bytes() }

// Bytes is the number of bytes of the message's parts, each of which may be the large one.
func (m *Message) Bytes() int {
	n := len(m.ID) + len(m.Group) + len(m.LongGroup) + len(m.Key) + len(m.Payload) + len(m.Type) + len(m.Topic) + len(m.Tenant) +
		len(m.ContentType) + len(m.IdempotencyKey) + len(m.CorrelationID)
	for i := range m.Headers {
		n += len(m.Headers[i].Name) + len(m.Headers[i].Value) + 40
	}
	for i := range m.Fields {
		n += len(m.Fields[i].Value) + 40
	}
	return n
}
