package outbox

import (
	"slices"
	"time"
)

// Columns says which column of a table holds what. An empty name means that the table has no such column. It is the one
// truth of what a column means.
type Columns struct {
	ID, Type, Topic, Key, Payload, Headers                       string
	Tenant, ContentType, IdempotencyKey, CorrelationID, Priority string
	AvailableAt, MaxAttempts                                     string
	Status, Attempts, LastAttemptAt, NextAttemptAt, LastError    string
	DeliveredAt, CreatedAt, Seq                                  string
	// Attempts counts attempts, Failures those that were refused: a message that was delivered at once has 1 and 0.
	// UpdatedAt is when the relay last changed the row.
	Failures, UpdatedAt string
	// Receipt is what sinks answered.
	Receipt string
	// Group names the columns whose texts, joined by ":", are the message group. No group where any of them is NULL, or the
	// whole is empty.
	Group []string
}

// ColumnNames are the keys of the configuration's `columns`, in the order of documentation.
func ColumnNames() []string {
	return []string{"id", "type", "topic", "group", "key", "payload", "headers", "tenant", "content_type",
		"idempotency_key", "correlation_id", "priority", "available_at", "max_attempts", "status", "attempts",
		"last_attempt_at", "next_attempt_at", "last_error", "delivered_at", "created_at", "seq", "failures", "updated_at", "receipt"}
}

// MarkNames are those keys whose columns show what becomes of a message: the relay writes them.
func MarkNames() []string {
	return []string{"status", "attempts", "last_attempt_at", "next_attempt_at", "last_error", "delivered_at", "failures", "updated_at", "receipt"}
}

// Field returns the place of a column by its configuration key, or nil for group (which may name several columns) and
// for unknown keys.
func (c *Columns) Field(key string) *string {
	fields := map[string]*string{"id": &c.ID, "type": &c.Type, "topic": &c.Topic, "key": &c.Key, "payload": &c.Payload,
		"headers": &c.Headers, "tenant": &c.Tenant, "content_type": &c.ContentType,
		"idempotency_key": &c.IdempotencyKey, "correlation_id": &c.CorrelationID, "priority": &c.Priority,
		"available_at": &c.AvailableAt, "max_attempts": &c.MaxAttempts, "status": &c.Status, "attempts": &c.Attempts,
		"last_attempt_at": &c.LastAttemptAt, "next_attempt_at": &c.NextAttemptAt, "last_error": &c.LastError,
		"delivered_at": &c.DeliveredAt, "created_at": &c.CreatedAt, "seq": &c.Seq, "failures": &c.Failures,
		"updated_at": &c.UpdatedAt, "receipt": &c.Receipt}
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

// A Table is one outbox table of a pipeline, as configured.
type Table struct {
	// Schema and Name, unquoted. Schema is the database for MySQL and MongoDB.
	Schema, Name string
	Shape        string
	Columns      Columns
	OnDelivered  OnDelivered
	// Writes: the relay writes messages into the table, too, if operators ask for that.
	Writes bool
	Words  Words
	// AlsoPending are further words of rows that wait, such as those of the program that delivered them before. Words.Pending is the one that is written.
	AlsoPending []string
	// Topic makes the topic of messages of a table that has no column for it, such as ${type} or orders.${tenant}; see
	// TopicNames. "" is ${type}.
	Topic string
	// Fields are further columns that the router needs. Those that are Optional as well may be absent.
	Fields   []string
	Optional []string
	// NeedsType: routes or the router's options go by the type. Else a table of the shape debezium may lack it.
	NeedsType bool
	// Feedback is what business rows are told, by outcome.
	Feedback Feedback
	// Retention is how long delivered rows stay; 0 = for ever.
	Retention time.Duration
	// Set are columns of the application's own that show a state; see SetFor.
	Set []SetValue
	// References say where parts of a message stand that have no column of their own.
	References []Reference
	// Ungrouped are values of the group that mean none.
	Ungrouped []string
	// Headers chooses which of the application's headers go to sinks.
	Headers HeaderFilter
	// Tenants are those whose rows are this pipeline's; none = all rows are.
	Tenants []string
}

// PendingWords are the values of the status column of rows that wait for their first delivery. The first one is that which is written.
func (t *Table) PendingWords() []string {
	word := t.Words.Pending
	if word == "" {
		word = DefaultWords().Pending
	}
	return append([]string{word}, t.AlsoPending...)
}

// Outcomes that feedback can be about.
const (
	OutcomeDelivered = "delivered" // the message, to all its sinks
	OutcomeRetrying  = "retrying"  // one delivery has failed and waits for its next attempt
	OutcomeDead      = "dead"      // one delivery is given up
)

// Outcomes lists them.
func Outcomes() []string { return []string{OutcomeDelivered, OutcomeRetrying, OutcomeDead} }

// Feedback holds a statement by outcome, in SQL or, for MongoDB, as an update in JSON: {"collection", "filter", "update"}. Those
// that are missing are not told.
type Feedback map[string]string

// Ours reports whether a message is this pipeline's. If its tenant could not be read, it counts as every
// pipeline's, because otherwise none would report it.
func (t *Table) Ours(m *Message) bool {
	return len(t.Tenants) == 0 || slices.Contains(t.Tenants, m.Tenant) || m.Fault != nil && m.Tenant == ""
}

// String is the qualified name, as Message.Table and tailbox_parked.source_table have it.
func (t Table) String() string { return t.Schema + "." + t.Name }
