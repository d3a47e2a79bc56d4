-- Columns, types and indexes as in: spring-projects/spring-modulith, spring-modulith-events-jdbc, v2/schema-postgresql.sql; insert as in: JdbcEventPublicationRepositoryV2.java
-- section: ddl
CREATE TABLE event_publication (
	id uuid PRIMARY KEY, listener_id text NOT NULL, event_type text NOT NULL, serialized_event text NOT NULL, publication_date timestamptz NOT NULL,
	completion_date timestamptz, status text, completion_attempts int, last_resubmission_date timestamptz
);
CREATE INDEX event_publication_serialized_event_hash_idx ON event_publication USING hash (serialized_event);
CREATE INDEX event_publication_by_completion_date_idx ON event_publication (completion_date);
-- section: history
INSERT INTO event_publication (id, event_type, listener_id, publication_date, serialized_event, status, completion_attempts, completion_date) VALUES
	('0b9f1d5e-0000-4000-8000-000000000008', 'com.example.orders.OrderPlaced', 'tailbox', '2025-11-25T12:00:00Z', '{"orderId":"sent before"}', 'COMPLETED', 1, '2025-11-25T12:00:01Z'),
	('0b9f1d5e-0000-4000-8000-000000000009', 'com.example.orders.OrderPlaced', 'tailbox', '2025-11-25T12:00:00Z', '{"orderId":"given up"}', 'FAILED', 3, NULL);
-- section: good
INSERT INTO event_publication (id, event_type, listener_id, publication_date, serialized_event, status, completion_attempts, last_resubmission_date)
	VALUES ('0b9f1d5e-0000-4000-8000-000000000001', 'com.example.orders.OrderPlaced', 'tailbox', '2025-11-26T12:00:00Z', '{"orderId":"good-one","total":12.5}', 'PUBLISHED', 1, '2025-11-26T12:00:00Z');
-- section: refused
INSERT INTO event_publication (id, event_type, listener_id, publication_date, serialized_event, status, completion_attempts, last_resubmission_date)
	VALUES ('0b9f1d5e-0000-4000-8000-000000000002', 'com.example.orders.OrderPlaced', 'tailbox', '2025-11-26T12:00:01Z', '{"orderId":"refuse-me","total":7}', 'PUBLISHED', 1, '2025-11-26T12:00:01Z');
-- section: delivered
SELECT EXISTS (SELECT FROM event_publication WHERE id = '0b9f1d5e-0000-4000-8000-000000000001' AND status = 'COMPLETED' AND completion_date IS NOT NULL);
-- section: dead
SELECT EXISTS (SELECT FROM event_publication WHERE id = '0b9f1d5e-0000-4000-8000-000000000002' AND status = 'FAILED' AND completion_date IS NULL);
-- section: want
{"type": "com.example.orders.OrderPlaced", "topic": "com.example.orders.OrderPlaced"}
