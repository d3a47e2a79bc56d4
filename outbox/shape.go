package outbox

import "slices"

// Columns says which column of a table holds what. An empty name means that the table has no such column. It is the one
// truth of what a column means.
type Columns struct {
	ID, Type, Topic, Key, Payload, Headers                       string
	Tenant, ContentType, IdempotencyKey, CorrelationID, Priority string
	AvailableAt, MaxAttempts                                     string
	Status, Attempts, LastAttemptAt, NextAttemptAt, LastError    string
	DeliveredAt, CreatedAt, Seq                                  string
	// Group names the columns whose texts, joined by ":", are the message group. No group where any of them is NULL, or the
	// whole is empty.
	Group []string
}

// ColumnNames are the keys of the configuration's `columns`, in the order of documentation.
var ColumnNames = []string{"id", "type", "topic", "group", "key", "payload", "headers", "tenant", "content_type",
	"idempotency_key", "correlation_id", "priority", "available_at", "max_attempts", "status", "attempts",
	"last_attempt_at", "next_attempt_at", "last_error", "delivered_at", "created_at", "seq"}

// Field returns the place of a column by its configuration key, or nil for group (which may name several columns) and
// for unknown keys.
func (c *Columns) Field(key string) *string {
	fields := map[string]*string{"id": &c.ID, "type": &c.Type, "topic": &c.Topic, "key": &c.Key, "payload": &c.Payload,
		"headers": &c.Headers, "tenant": &c.Tenant, "content_type": &c.ContentType,
		"idempotency_key": &c.IdempotencyKey, "correlation_id": &c.CorrelationID, "priority": &c.Priority,
		"available_at": &c.AvailableAt, "max_attempts": &c.MaxAttempts, "status": &c.Status, "attempts": &c.Attempts,
		"last_attempt_at": &c.LastAttemptAt, "next_attempt_at": &c.NextAttemptAt, "last_error": &c.LastError,
		"delivered_at": &c.DeliveredAt, "created_at": &c.CreatedAt, "seq": &c.Seq}
	return fields[key]
}

// OnDelivered says what becomes of the user's row in the transaction that settles its message's last delivery.
type OnDelivered string

// What becomes of a delivered row.
const (
	Delete OnDelivered = "delete"
	Mark   OnDelivered = "mark"
	Keep   OnDelivered = "keep"
)

// Words are the values of the status column.
type Words struct {
	Pending, Delivered, Retrying, Waiting, Dead string
}

// DefaultWords are the words of tables that do not bring their own.
var DefaultWords = Words{Pending: "pending", Delivered: "delivered", Retrying: "retrying", Waiting: "waiting", Dead: "dead"}

// A Table is one outbox table of a pipeline, as configured.
type Table struct {
	// Schema and Name, unquoted. Schema is the database for MySQL and MongoDB.
	Schema, Name string
	Shape        string
	Columns      Columns
	OnDelivered  OnDelivered
	Words        Words
	// Fields are further columns that the router needs. Those that are Optional as well may be absent.
	Fields   []string
	Optional []string
}

// String is the qualified name, as Message.Table and tailbox_parked.source_table have it.
func (t Table) String() string { return t.Schema + "." + t.Name }

// A Shape is a known table layout: which columns there are, and the DDL that makes such a table.
type Shape struct {
	Name        string
	Columns     Columns
	OnDelivered OnDelivered
	Words       Words
}

// Shapes lists the layouts that a table can name.
func Shapes() []Shape {
	return []Shape{
		{
			Name: "debezium", OnDelivered: Delete, Words: DefaultWords,
			Columns: Columns{ID: "id", Type: "type", Topic: "aggregatetype", Key: "aggregateid",
				Group: []string{"aggregatetype", "aggregateid"}, Payload: "payload"},
		},
		{
			Name: "tailbox", OnDelivered: Mark, Words: DefaultWords,
			Columns: Columns{ID: "id", Type: "type", Topic: "topic", Group: []string{"message_group"}, Key: "key",
				Payload: "payload", ContentType: "content_type", Headers: "headers", Tenant: "tenant",
				IdempotencyKey: "idempotency_key", CorrelationID: "correlation_id", Priority: "priority",
				AvailableAt: "available_at", MaxAttempts: "max_attempts", Status: "status", Attempts: "attempts",
				LastAttemptAt: "last_attempt_at", NextAttemptAt: "next_attempt_at", LastError: "last_error",
				DeliveredAt: "delivered_at", CreatedAt: "created_at", Seq: "seq"},
		},
	}
}

// ShapeNamed finds a shape.
func ShapeNamed(name string) (Shape, bool) {
	shapes := Shapes()
	i := slices.IndexFunc(shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		return Shape{}, false
	}
	return shapes[i], true
}
