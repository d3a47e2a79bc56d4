CREATE TABLE outbox (id bigserial PRIMARY KEY, messageid varchar(255) UNIQUE NOT NULL, topic varchar(255), messagetype varchar(32), "timestamp" timestamptz, correlationid varchar(255), replyto varchar(255), contenttype varchar(128),
	partitionkey varchar(128), dispatched timestamptz, headerbag text, body text);
INSERT INTO outbox (messageid, topic, messagetype, headerbag, body) VALUES ('m', 'orders', 'MT_EVENT', '{"x": "y"}', '{}');
