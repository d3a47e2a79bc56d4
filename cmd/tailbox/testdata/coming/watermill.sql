-- Columns, types and indexes as in: ThreeDotsLabs/watermill-sql, pkg/sql/schema_adapter_postgresql.go; insert as in: schema_adapter_postgresql.go
-- The stored version with GeneratePayloadType, for the topic orders. The unique index on uuid is ours.
-- section: ddl
CREATE TABLE "watermill_orders" (
	"offset" bigserial, "uuid" varchar(36) NOT NULL, "created_at" timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, "payload" json DEFAULT NULL,
	"metadata" json DEFAULT NULL, "transaction_id" xid8 NOT NULL, PRIMARY KEY ("transaction_id", "offset")
);
CREATE UNIQUE INDEX watermill_orders_uuid ON watermill_orders (uuid);
-- section: good
INSERT INTO "watermill_orders" (uuid, payload, metadata, transaction_id)
	VALUES ('0b8f2c1e-6d0a-4c57-9a63-1f0e7d5b9a01', '{"order":7,"note":"good-one"}', '{"kind":"OrderPlaced"}', pg_current_xact_id());
-- section: refused
INSERT INTO "watermill_orders" (uuid, payload, metadata, transaction_id)
	VALUES ('0b8f2c1e-6d0a-4c57-9a63-1f0e7d5b9a02', '{"order":8,"note":"refuse-me"}', '{"kind":"OrderPlaced"}', pg_current_xact_id());
-- section: delivered
SELECT NOT EXISTS (SELECT FROM watermill_orders WHERE uuid = '0b8f2c1e-6d0a-4c57-9a63-1f0e7d5b9a01');
-- section: dead
SELECT NOT EXISTS (SELECT FROM watermill_orders WHERE uuid = '0b8f2c1e-6d0a-4c57-9a63-1f0e7d5b9a02') AND EXISTS (SELECT FROM tailbox_parked WHERE message_id = '0b8f2c1e-6d0a-4c57-9a63-1f0e7d5b9a02' AND state = 'dead');
-- section: want
{"topic": "orders"}
