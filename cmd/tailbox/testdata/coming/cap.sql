-- Columns, types and indexes as in: dotnetcore/CAP, src/DotNetCore.CAP.PostgreSql/IStorageInitializer.PostgreSql.cs; insert as in: IDataStorage.PostgreSql.cs
-- With the default schema. The indexes are those of newer versions, after a port of this file.
-- section: ddl
CREATE SCHEMA "cap";
CREATE TABLE "cap"."received" (
	"Id" bigint PRIMARY KEY, "Version" varchar(20) NOT NULL, "Name" varchar(200) NOT NULL, "Group" varchar(200), "Content" text, "Retries" int NOT NULL,
	"Added" timestamp NOT NULL, "ExpiresAt" timestamp, "StatusName" varchar(50) NOT NULL
);
CREATE INDEX "idx_received_ExpiresAt_StatusName" ON "cap"."received" ("ExpiresAt", "StatusName");
CREATE INDEX "idx_received_Version_ExpiresAt_StatusName" ON "cap"."received" ("Version", "ExpiresAt", "StatusName");
CREATE TABLE "cap"."published" (
	"Id" bigint PRIMARY KEY, "Version" varchar(20) NOT NULL, "Name" varchar(200) NOT NULL, "Content" text, "Retries" int NOT NULL,
	"Added" timestamp NOT NULL, "ExpiresAt" timestamp, "StatusName" varchar(50) NOT NULL
);
CREATE INDEX "idx_published_ExpiresAt_StatusName" ON "cap"."published" ("ExpiresAt", "StatusName");
CREATE INDEX "idx_published_Version_ExpiresAt_StatusName" ON "cap"."published" ("Version", "ExpiresAt", "StatusName");
-- section: history
INSERT INTO "cap"."published" ("Id", "Version", "Name", "Content", "Retries", "Added", "ExpiresAt", "StatusName") VALUES
	(1993650000000000008, 'v1', 'orders.placed', '{"Headers":{},"Value":{"OrderId":"sent before"}}', 0, '2025-11-25 12:00:00', '2025-11-26 12:00:00', 'Succeeded'),
	(1993650000000000009, 'v1', 'orders.placed', '{"Headers":{},"Value":{"OrderId":"given up"}}', 50, '2025-11-25 12:00:00', '2025-12-10 12:00:00', 'Failed');
-- section: good
INSERT INTO "cap"."published" ("Id", "Version", "Name", "Content", "Retries", "Added", "ExpiresAt", "StatusName")
	VALUES (1993650000000000001, 'v1', 'orders.placed', '{"Headers":{"cap-kafka-key":"order-1","cap-callback-name":null,"cap-msg-id":"1993650000000000001","cap-corr-id":"1993650000000000001","cap-corr-seq":"0","cap-msg-name":"orders.placed","cap-msg-type":"OrderPlaced","cap-senttime":"11/26/2025 12:00:00"},"Value":{"OrderId":"good-one"}}', 0, '2025-11-26 12:00:00', NULL, 'Scheduled');
-- section: refused
INSERT INTO "cap"."published" ("Id", "Version", "Name", "Content", "Retries", "Added", "ExpiresAt", "StatusName")
	VALUES (1993650000000000002, 'v1', 'orders.placed', '{"Headers":{"cap-kafka-key":"order-2","cap-callback-name":null,"cap-msg-id":"1993650000000000002","cap-corr-id":"1993650000000000002","cap-corr-seq":"0","cap-msg-name":"orders.placed","cap-msg-type":"OrderPlaced","cap-senttime":"11/26/2025 12:00:01"},"Value":{"OrderId":"refuse-me"}}', 0, '2025-11-26 12:00:01', NULL, 'Scheduled');
-- section: delivered
SELECT EXISTS (SELECT FROM "cap"."published" WHERE "Id" = 1993650000000000001 AND "StatusName" = 'Succeeded' AND "ExpiresAt" IS NOT NULL AND "Retries" = 0);
-- section: dead
SELECT EXISTS (SELECT FROM "cap"."published" WHERE "Id" = 1993650000000000002 AND "StatusName" = 'Failed' AND "ExpiresAt" IS NULL AND "Retries" = 1);
-- section: want
{"type": "orders.placed", "topic": "orders.placed", "key": "order-1"}
