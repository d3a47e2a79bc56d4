-- Columns, types and indexes as in: gruelbox/transaction-outbox, transactionoutbox-core, DefaultDialect.java and Dialect.java; insert as in: DefaultPersistor.java (save)
-- POSTGRESQL_9, as migrations 1 to 13 leave the tables; 8 and 13 do nothing there.
-- section: ddl
CREATE TABLE TXNO_VERSION (id int DEFAULT 0 PRIMARY KEY, version int);
CREATE TABLE TXNO_OUTBOX (
	id varchar(36) PRIMARY KEY, invocation text, nextAttemptTime timestamp(6), attempts int, blocked boolean, version int,
	uniqueRequestId varchar(250) UNIQUE, processed boolean, lastAttemptTime timestamp(6), topic varchar(250) NOT NULL DEFAULT '*', seq bigint
);
CREATE INDEX IX_TXNO_OUTBOX_1 ON TXNO_OUTBOX (processed, blocked, nextAttemptTime);
CREATE INDEX IX_TXNO_OUTBOX_2 ON TXNO_OUTBOX (topic, processed, seq);
CREATE TABLE TXNO_SEQUENCE (topic varchar(250), seq bigint, PRIMARY KEY (topic, seq));
-- section: history
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version) VALUES
	('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e08', 'request-1', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"sent before"}]}', 'customer-1', 1, now(), now(), 0, false, true, 1),
	('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e09', 'request-2', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"given up"}]}', 'customer-2', 1, now(), now(), 5, true, false, 6);
-- section: good
INSERT INTO TXNO_SEQUENCE (topic, seq)
	VALUES ('customer-7', 1);
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version)
	VALUES ('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e01', 'request-7', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"good-one"}]}', 'customer-7', 1, NULL, now() + interval '2 minutes', 0, false, false, 0);
-- section: refused
INSERT INTO TXNO_SEQUENCE (topic, seq)
	VALUES ('customer-8', 1);
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version)
	VALUES ('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e02', 'request-8', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"refuse-me"}]}', 'customer-8', 1, NULL, now() + interval '2 minutes', 0, false, false, 0);
-- section: delivered
SELECT processed AND NOT blocked AND attempts = 0 AND lastAttemptTime IS NOT NULL FROM TXNO_OUTBOX WHERE id = '3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e01';
-- section: dead
SELECT blocked AND NOT processed AND attempts = 1 FROM TXNO_OUTBOX WHERE id = '3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e02';
-- section: want
{"type": "com.example.MailService", "topic": "jobs", "group": "customer-7"}
