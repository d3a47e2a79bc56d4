-- Columns, types and indexes as in: juntossomosmais/django-outbox-pattern, django_outbox_pattern/migrations/0001 to 0007 and models.py; insert as in: Django's own for Published.save()
-- section: ddl
CREATE TABLE "published" (
	"id" uuid PRIMARY KEY, "version" varchar(100), "destination" varchar(255) NOT NULL, "body" jsonb NOT NULL, "added" timestamptz NOT NULL,
	"expires_at" timestamptz NOT NULL, "retry" integer NOT NULL CHECK ("retry" >= 0), "status" integer NOT NULL, "headers" jsonb NOT NULL
);
CREATE INDEX "published_added_9200ad78" ON "published" ("added");
CREATE INDEX "published_status_27c9ec_btree" ON "published" ("status");
-- section: history
INSERT INTO "published" ("id", "version", "destination", "body", "added", "expires_at", "retry", "status", "headers") VALUES
	('7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b08', 'v1', '/topic/orders.v1', '{"id": 5, "note": "sent before"}', now(), now(), 0, 2, '{}'),
	('7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b09', 'v1', '/topic/orders.v1', '{"id": 6, "note": "given up"}', now(), now(), 3, -1, '{}');
-- section: good
INSERT INTO "published" ("id", "version", "destination", "body", "added", "expires_at", "retry", "status", "headers")
	VALUES ('7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b01', 'v1', '/topic/orders.v1', '{"id": 7, "note": "good-one"}', now(), now() + interval '1 day', 0, 1, '{"dop-msg-id": "7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b01", "dop-msg-destination": "/topic/orders.v1", "dop-msg-type": "Published", "dop-msg-sent-time": "2025-03-04T10:15:30.123Z", "dop-correlation-id": "5f6a7b8c-9d0e-4f1a-8b2c-3d4e5f6a7b01"}');
-- section: refused
INSERT INTO "published" ("id", "version", "destination", "body", "added", "expires_at", "retry", "status", "headers")
	VALUES ('7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b02', 'v1', '/topic/orders.v1', '{"id": 8, "note": "refuse-me"}', now(), now() + interval '1 day', 0, 1, '{"dop-msg-id": "7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b02", "dop-msg-destination": "/topic/orders.v1", "dop-msg-type": "Published", "dop-msg-sent-time": "2025-03-04T10:15:30.123Z", "dop-correlation-id": "5f6a7b8c-9d0e-4f1a-8b2c-3d4e5f6a7b02"}');
-- section: delivered
SELECT status = 2 AND retry = 0 FROM published WHERE id = '7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b01';
-- section: dead
SELECT status = -1 AND retry = 1 FROM published WHERE id = '7e1d0a52-3b64-4f0c-9c1a-2d3e4f5a6b02';
-- section: want
{"topic": "/topic/orders.v1"}
