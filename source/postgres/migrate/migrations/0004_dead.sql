-- It leads to the dead letters in the order in which they died, and holds what a summary of them reads. What is only parked is not in it.
CREATE INDEX IF NOT EXISTS tailbox_parked_dead ON {parked} (pipeline, changed_at, message_id, source_table, sink) INCLUDE (error_class, type) WHERE state OPERATOR(pg_catalog.=) 'dead';
