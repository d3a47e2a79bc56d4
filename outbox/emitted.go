package outbox

// LogMessageTable is in the place of a table for messages that are in none: on Postgres an application writes them by
// pg_logical_emit_message, under a prefix. Its columns are the members of their content, a JSON object.
func LogMessageTable(prefix string) Table {
	return Table{Schema: "pg_logical_emit_message", Name: prefix, Shape: "tailbox", OnDelivered: Keep,
		Columns: Columns{ID: "id", Type: "type", Topic: "topic", Group: []string{"group"}, Key: "key", Payload: "payload", Headers: "headers",
			Tenant: "tenant", ContentType: "content_type", IdempotencyKey: "idempotency_key", CorrelationID: "correlation_id", Priority: "priority",
			AvailableAt: "available_at", MaxAttempts: "max_attempts", CreatedAt: "created_at"}}
}
