package outbox

import (
	"slices"
	"time"
)

// A Shape is a known table layout: which columns there are, what the status says, and what the router does with its rows.
type Shape struct {
	Name        string
	Columns     Columns
	OnDelivered OnDelivered
	Words       Words
	// Tables are the names that tables of the shape have. The first is the one of a table that is not named.
	Tables []string
	// Topic is as in Table.
	Topic string
	// Router are options of the outbox event router, as under a table's `router`.
	Router map[string]string
	// Retention is that of a table which is marked and names none; 0 = delivered rows stay.
	Retention time.Duration
}

// Shapes lists the layouts that a table can name: ours first, then those of applications that had an outbox before.
func Shapes() []Shape {
	return []Shape{
		{
			Name: "debezium", OnDelivered: Delete, Words: DefaultWords(), Tables: []string{"outbox"},
			Columns: Columns{ID: "id", Type: "type", Topic: "aggregatetype", Key: "aggregateid",
				Group: []string{"aggregatetype", "aggregateid"}, Payload: "payload"},
		},
		{
			Name: "tailbox", OnDelivered: Mark, Words: DefaultWords(), Tables: []string{"outbox"},
			Columns: Columns{ID: "id", Type: "type", Topic: "topic", Group: []string{"message_group"}, Key: "key",
				Payload: "payload", ContentType: "content_type", Headers: "headers", Tenant: "tenant",
				IdempotencyKey: "idempotency_key", CorrelationID: "correlation_id", Priority: "priority",
				AvailableAt: "available_at", MaxAttempts: "max_attempts", Status: "status", Attempts: "attempts",
				LastAttemptAt: "last_attempt_at", NextAttemptAt: "next_attempt_at", LastError: "last_error",
				DeliveredAt: "delivered_at", CreatedAt: "created_at", Seq: "seq"},
		},
		yantra(), gopipe(), talkie(), flowcatalyst(), memo(),
	}
}

// yantra is the outbox of a workflow engine: one row a side effect of an asynchronous node, such as a mail.
func yantra() Shape {
	return Shape{
		Name: "yantra", OnDelivered: Mark, Tables: []string{"outbox_messages"},
		Columns: Columns{ID: "id", Type: "event_type", Payload: "payload", CorrelationID: "node_execution_id", Tenant: "account_id",
			IdempotencyKey: "idempotency_key", MaxAttempts: "max_attempts", Status: "status", Failures: "attempts",
			LastAttemptAt: "last_attempt_at", NextAttemptAt: "next_retry_at", LastError: "last_error",
			DeliveredAt: "processed_at", CreatedAt: "created_at"},
		Words: Words{Pending: "pending", Delivered: "completed", Retrying: "pending", Waiting: "pending", Dead: "dead_letter"},
	}
}

// gopipe is the outbox of a message pipeline: a binary payload and properties. Neither a status nor a type.
func gopipe() Shape {
	return Shape{
		Name: "gopipe", OnDelivered: Mark, Words: DefaultWords(), Tables: []string{"message_outbox"}, Topic: "${header.subject}",
		Retention: 24 * time.Hour,
		Columns: Columns{ID: "id", Payload: "payload", Headers: "properties", Failures: "attempts", LastError: "last_error",
			DeliveredAt: "published_at", CreatedAt: "created_at", UpdatedAt: "updated_at"},
	}
}

// talkie is an outbox for Kafka. Rows of one topic and key are in order.
func talkie() Shape {
	return Shape{
		Name: "talkie", OnDelivered: Mark, Tables: []string{"outbox"},
		Columns: Columns{ID: "id", Topic: "topic", Key: "key", Group: []string{"topic", "key"}, Payload: "payload_json", Headers: "headers",
			IdempotencyKey: "idempotency_key", Status: "status", Failures: "retry_count", LastAttemptAt: "last_attempt_at",
			NextAttemptAt: "next_attempt_at", LastError: "last_error", DeliveredAt: "published_at", CreatedAt: "created_at"},
		Words: Words{Pending: "pending", Delivered: "published", Retrying: "failed", Waiting: "pending", Dead: "dead_lettered"},
	}
}

// flowcatalyst is the outbox of a platform's clients: events and dispatch jobs, a table each, posted in batches.
func flowcatalyst() Shape {
	return Shape{
		Name: "flowcatalyst", OnDelivered: Mark, Tables: []string{"outbox_events", "outbox_dispatch_jobs"},
		Columns: Columns{ID: "id", Type: "type", Group: []string{"message_group"}, Payload: "payload", Status: "status",
			Failures: "retry_count", CreatedAt: "created_at", DeliveredAt: "processed_at", LastError: "error_message"},
		Words: Words{Pending: "PENDING", Delivered: "COMPLETED", Retrying: "PENDING", Waiting: "PENDING", Dead: "FAILED"},
	}
}

// memo is an outbox of mails, whose recipient has a column of its own.
func memo() Shape {
	return Shape{
		Name: "memo", OnDelivered: Mark, Tables: []string{"email_outbox"},
		Columns: Columns{ID: "id", Type: "event_type", Payload: "payload", CorrelationID: "memo_id", IdempotencyKey: "idempotency_key",
			Status: "status", Failures: "retry_count", LastAttemptAt: "last_attempt_at", LastError: "error_message",
			DeliveredAt: "sent_at", CreatedAt: "meta_created_at", UpdatedAt: "meta_updated_at"},
		Words:  Words{Pending: "PENDING", Delivered: "SENT", Retrying: "PENDING", Waiting: "PENDING", Dead: "FAILED"},
		Router: map[string]string{"table.fields.additional.placement": "recipient_email:header:to,notification_type:header:notification-type"},
	}
}

// AsDocuments is the shape in MongoDB: the id of a document is its _id, and nothing there counts a sequence.
func (s Shape) AsDocuments() Shape {
	if s.Name == "flowcatalyst" {
		s.Columns = Columns{Type: "type", Group: []string{"messageGroup"}, Payload: "payload", Status: "status", Failures: "retryCount",
			CreatedAt: "createdAt", DeliveredAt: "processedAt", LastError: "errorMessage"}
	}
	s.Columns.ID, s.Columns.Seq = "_id", ""
	return s
}

// Table is a table of the shape with nothing named otherwise.
func (s Shape) Table(name string) Table {
	return Table{Name: name, Shape: s.Name, Columns: s.Columns, OnDelivered: s.OnDelivered, Words: s.Words, Topic: s.Topic}
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
