-- dead_at is when a dead letter died, and dead_class and dead_type are what a summary of dead letters reads, of a long
-- type the beginning. They are NULL in all other rows, so that
-- these are as large as before: each row has an entry in each index, and that of dead letters is the one that unfinished rows had alone. The columns
-- of the primary key stand in it where they give dead letters an order.
-- Whoever inserts a dead letter by hand names changed_at: MySQL computes these columns before a default that is an expression.
-- unless column dead_at of tailbox_parked
ALTER TABLE {parked}
	ADD COLUMN dead_at DATETIME(6) GENERATED ALWAYS AS (CASE WHEN state = 'dead' THEN changed_at END) STORED,
	ADD COLUMN dead_class VARCHAR(64) GENERATED ALWAYS AS (CASE WHEN state = 'dead' THEN error_class END) STORED,
	ADD COLUMN dead_type VARBINARY(255) GENERATED ALWAYS AS (CASE WHEN state = 'dead' THEN LEFT(type, 255) END) STORED,
	DROP KEY tailbox_parked_unfinished,
	ADD KEY tailbox_parked_unfinished (pipeline, unfinished, dead_at, message_id, source_table, sink, dead_class, dead_type);
