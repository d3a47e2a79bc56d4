package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Draft is a message as an application writes it. Empty means not given: the column is left out of the INSERT, and the
// database fills it in. What the table has no column for is an error, never left out silently.
type Draft struct {
	// ID identifies the message for ever. Empty: one is made, by the writer or by the database.
	ID string
	// Type says what kind of message this is, such as OrderPaid. It must be given where the table has a column for it.
	Type string
	// Topic names a destination; in the shape debezium it is the aggregate type, and must be given.
	Topic string
	// Group is the message group. If the table makes it of several columns, Group is their values joined by ":", or is left
	// empty and follows from the other parts: in the shape debezium from Topic and Key.
	Group string
	// Key is the key for sinks that have one; in the shape debezium it is the aggregate id, and must be given.
	Key string
	// Payload is the body. Nil is SQL NULL, which is not the same as empty.
	Payload []byte
	// Headers are the application's own.
	Headers map[string]string

	Tenant      string
	ContentType string
	// IdempotencyKey names what the message stands for, so that it is not written twice: see Key. It is unique in the table.
	IdempotencyKey string
	// Once makes a message whose IdempotencyKey is in the table already a success that writes nothing; without it that
	// is a *DuplicateError.
	Once          bool
	CorrelationID string
	Priority      int32
	// MaxAttempts overrides the route's limit when it is above 0.
	MaxAttempts int32
	// AvailableAt is the earliest time of delivery; zero means at once. In the future, it takes the message out of the order
	// of its group.
	AvailableAt time.Time
	// CreatedAt is the application's own time; zero is the database's.
	CreatedAt time.Time
	// Fields are further columns of the table, such as a reference to the business row, by name. Their values go to the driver
	// as they are.
	Fields map[string]any
}

// Written says what became of a Draft.
type Written struct {
	// ID is the message's. Of a duplicate it is that of the message that was there before, or "" if that is gone by now.
	ID string
	// Duplicate: a message with the same IdempotencyKey was there already, and nothing was written.
	Duplicate bool
}

// ErrDuplicate is what every *DuplicateError matches.
var ErrDuplicate = errors.New("message is in the outbox already")

// A DuplicateError says that a message has the ID or the IdempotencyKey of one that is in the table. Nothing was written, and
// the transaction can go on.
type DuplicateError struct {
	Table string
	// Column is that of the ID or of the IdempotencyKey, and Value what both messages have in it.
	Column, Value string
	// First is the ID of the message that was there before; "" if it is gone by now.
	First string
	// Index is the place of the draft among those that were written together.
	Index int
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("write to table %s: %v: %s is %q: set Draft.Once where that is as good, or write another one", e.Table, ErrDuplicate, e.Column, e.Value)
}

// Is makes it match ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// A DraftError says why a Draft cannot be written. It is found before anything is sent to the database, so the transaction
// can go on.
type DraftError struct {
	Table string
	// Field is the part of the Draft, such as Payload.
	Field string
	// Reason is what is wrong, with the fix. It never holds payload bytes.
	Reason string
	// Index is the place of the draft among those that were to be written together.
	Index int
}

func (e *DraftError) Error() string {
	return fmt.Sprintf("write to table %s: %s %s", e.Table, e.Field, e.Reason)
}

// ErrNoTransaction means that a writer was given no transaction: the message would be committed apart from the business change.
var ErrNoTransaction = errors.New("not in a transaction: begin one, make the business change in it, and write with it")

// DefaultMaxMessage is the largest message in bytes, as the relay's max_message has it.
const DefaultMaxMessage = 16 << 20

// Options of a writer. The zero value is good.
type Options struct {
	// MaxMessage bounds the values of one message together, in bytes; 0 is DefaultMaxMessage. It should not be above the relay's
	// max_message: larger messages are not delivered.
	MaxMessage int
	// NewID makes the ID of a message that has none; nil makes a UUIDv7. It is called concurrently. It is not asked where the
	// database makes ids.
	NewID func() string
	// Savepoint (Postgres) writes within a savepoint, so that an error of the database, such as a violated constraint
	// on one of Fields, leaves the transaction usable. It costs a subtransaction a call, and two round trips. What can be known
	// beforehand, and duplicates, never need it.
	Savepoint bool
	// DeleteAtOnce deletes each row in the statement after the one that inserts it, so that the table stays empty and the log
	// alone has the message. The table's OnDelivered must be Keep, and the relay must read the log: polling finds no such row,
	// and rows that the relay did not read before their log was lost are lost.
	DeleteAtOnce bool
}

// JSON is v as JSON for a Payload, without the escapes for HTML that encoding/json makes by default.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write payload as JSON: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// NewTable is a table of a shape by its name, which may begin with a schema and a dot (neither of them quoted).
func NewTable(shape, name string) (Table, error) {
	s, ok := ShapeNamed(shape)
	if !ok {
		var names []string
		for _, s := range Shapes() {
			names = append(names, s.Name)
		}
		return Table{}, fmt.Errorf("make table %s: there is no shape %q: choose one of %s", name, shape, strings.Join(names, ", "))
	}
	t := s.Table(name)
	if schema, rest, ok := strings.Cut(name, "."); ok {
		t.Schema, t.Name = schema, rest
	}
	if t.Name == "" {
		return Table{}, fmt.Errorf("make table %q: its name is empty", name)
	}
	return t, nil
}
