-- Columns, types and indexes as in: eventuate-foundation/eventuate-common, postgres/1. and 2.initialize-database.sql; insert as in: EventuateJdbcOperationsUtils.java
-- The outbox table alone.
-- section: ddl
CREATE SCHEMA eventuate;
CREATE TABLE eventuate.message (
	id varchar(1000) PRIMARY KEY, destination text NOT NULL, headers text NOT NULL, payload text NOT NULL,
	published smallint DEFAULT 0, message_partition smallint, creation_time bigint
);
CREATE INDEX message_published_idx ON eventuate.message (published, id);
-- section: good
INSERT INTO eventuate.message (id, destination, headers, payload, creation_time, published, message_partition)
	VALUES ('000001956a10b2c3-0a1b2c3d4e5f0000', 'com.example.Order', '{"PARTITION_ID":"order-7","event-aggregate-type":"com.example.Order","DATE":"Tue, 4 Mar 2025 10:15:30 GMT","event-aggregate-id":"order-7","event-type":"com.example.OrderPlaced","DESTINATION":"com.example.Order","ID":"000001956a10b2c3-0a1b2c3d4e5f0000"}'::text, '{"note":"good-one"}'::text, round(extract(epoch FROM CURRENT_TIMESTAMP) * 1000), 0, NULL);
-- section: refused
INSERT INTO eventuate.message (id, destination, headers, payload, creation_time, published, message_partition)
	VALUES ('000001956a10b2c3-0a1b2c3d4e5f0001', 'com.example.Order', '{"PARTITION_ID":"order-8","event-aggregate-type":"com.example.Order","DATE":"Tue, 4 Mar 2025 10:15:30 GMT","event-aggregate-id":"order-8","event-type":"com.example.OrderPlaced","DESTINATION":"com.example.Order","ID":"000001956a10b2c3-0a1b2c3d4e5f0001"}'::text, '{"note":"refuse-me"}'::text, round(extract(epoch FROM CURRENT_TIMESTAMP) * 1000), 0, NULL);
-- section: delivered
SELECT published = 1 FROM eventuate.message WHERE id = '000001956a10b2c3-0a1b2c3d4e5f0000';
-- section: dead
SELECT published = 2 FROM eventuate.message WHERE id = '000001956a10b2c3-0a1b2c3d4e5f0001';
-- section: want
{"type": "com.example.OrderPlaced", "topic": "com.example.Order", "group": "order-7", "key": "order-7"}
