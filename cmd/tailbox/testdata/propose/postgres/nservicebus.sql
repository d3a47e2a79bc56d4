CREATE TABLE "Shop_OutboxData" ("MessageId" varchar(200) PRIMARY KEY, "Dispatched" boolean NOT NULL DEFAULT false, "DispatchedAt" timestamp, "PersistenceVersion" varchar(23) NOT NULL, "Operations" jsonb NOT NULL);
INSERT INTO "Shop_OutboxData" VALUES ('a', false, NULL, '4', '[{"MessageId": "b"}]');
