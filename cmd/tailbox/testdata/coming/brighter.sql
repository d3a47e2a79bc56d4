-- Columns, types and indexes as in: BrighterCommand/Brighter, src/Paramore.Brighter.Outbox.PostgreSql/PostgreSqlOutboxBuilder.cs; insert as in: PostgreSqlQueries.cs (AddCommand)
-- The version with a text body, after all seven steps of PostgreSqlOutboxMigrationCatalog.cs. Brighter does not quote the columns, so their names are in small letters.
-- section: ddl
CREATE TABLE outbox (
	id bigserial PRIMARY KEY, messageid varchar(255) NOT NULL UNIQUE, topic varchar(255), messagetype varchar(32), "timestamp" timestamptz,
	correlationid varchar(255), replyto varchar(255), contenttype varchar(128), partitionkey varchar(128), workflowid varchar(255), jobid varchar(255),
	dispatched timestamptz, headerbag text, body text, source varchar(255), type varchar(255), dataschema varchar(255), subject varchar(255),
	traceparent varchar(255), tracestate varchar(255), baggage text, dataref varchar(255), specversion varchar(255)
);
-- section: good
INSERT INTO outbox (messageid, messagetype, topic, "timestamp", correlationid, replyto, contenttype, partitionkey, headerbag, body, source, type, dataschema, subject, traceparent, tracestate, baggage, workflowid, jobid)
	VALUES ('8f7c1f0e-0000-4000-8000-000000000001', 'MT_EVENT', 'order.placed', '2025-11-26 10:00:00Z', 'c-1', NULL, 'application/json', 'order-42', '{"region":"eu"}', '{"orderId":42,"note":"good-one"}',
		'http://goparamore.io', 'shop.order.placed', NULL, NULL, NULL, NULL, '', NULL, NULL);
-- section: refused
INSERT INTO outbox (messageid, messagetype, topic, "timestamp", correlationid, replyto, contenttype, partitionkey, headerbag, body, source, type, dataschema, subject, traceparent, tracestate, baggage, workflowid, jobid)
	VALUES ('8f7c1f0e-0000-4000-8000-000000000002', 'MT_EVENT', 'order.placed', '2025-11-26 10:00:01Z', 'c-2', NULL, 'application/json', 'order-43', '{"region":"eu"}', '{"orderId":43,"note":"refuse-me"}',
		'http://goparamore.io', 'shop.order.placed', NULL, NULL, NULL, NULL, '', NULL, NULL);
-- section: delivered
SELECT EXISTS (SELECT FROM outbox WHERE messageid = '8f7c1f0e-0000-4000-8000-000000000001' AND dispatched IS NOT NULL);
-- section: dead
SELECT EXISTS (SELECT FROM outbox WHERE messageid = '8f7c1f0e-0000-4000-8000-000000000002' AND dispatched IS NULL) AND EXISTS (SELECT FROM tailbox_parked WHERE message_id = '8f7c1f0e-0000-4000-8000-000000000002' AND state = 'dead');
-- section: want
{"type": "MT_EVENT", "topic": "order.placed", "group": "order-42", "key": "order-42"}
