-- Columns, types and indexes as in: gruelbox/transaction-outbox, transactionoutbox-core, DefaultDialect.java and Dialect.java; insert as in: DefaultPersistor.java (save)
-- MY_SQL_8, as migrations 1 to 13 leave the tables.
-- section: ddl
CREATE TABLE TXNO_OUTBOX (
	id VARCHAR(36) PRIMARY KEY, invocation MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci, lastAttemptTime TIMESTAMP(6) NULL, nextAttemptTime TIMESTAMP(6),
	attempts INT, blocked VARCHAR(250), version INT, uniqueRequestId VARCHAR(250) UNIQUE, processed BOOLEAN, topic VARCHAR(250) NOT NULL DEFAULT '*', seq BIGINT NULL,
	INDEX IX_TXNO_OUTBOX_1 (processed, blocked, nextAttemptTime), INDEX IX_TXNO_OUTBOX_2 (topic, processed, seq)
)
-- section: history
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version) VALUES
	('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e08', 'request-1', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"sent before"}]}', 'customer-1', 1, now(6), now(6), 0, false, true, 1),
	('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e09', 'request-2', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"given up"}]}', 'customer-2', 1, now(6), now(6), 5, true, false, 6)
-- section: good
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version)
	VALUES ('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e01', 'request-7', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"good-one"}]}', 'customer-7', 1, NULL, now(6), 0, false, false, 0)
-- section: refused
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version)
	VALUES ('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e02', 'request-8', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"refuse-me"}]}', 'customer-8', 1, NULL, now(6), 0, false, false, 0)
-- section: delayed
INSERT INTO TXNO_OUTBOX (id, uniqueRequestId, invocation, topic, seq, lastAttemptTime, nextAttemptTime, attempts, blocked, processed, version)
	VALUES ('3c9d1f60-7a52-4e0b-8d11-5a6b7c8d9e03', 'request-9', '{"c":"com.example.MailService","m":"send","p":["String"],"a":[{"t":"String","v":"good-one, later"}]}', 'customer-9', 1, NULL, now(6) + INTERVAL 4 SECOND, 0, false, false, 0)
-- section: state
SELECT count(*) FROM TXNO_OUTBOX WHERE
	id LIKE '%01' AND processed = 1 AND blocked = '0' AND attempts = 0 AND lastAttemptTime IS NOT NULL OR
	id LIKE '%02' AND processed = 0 AND blocked = '1' AND attempts = 1 OR
	id LIKE '%03' AND processed = 1 AND blocked = '0' AND lastAttemptTime >= now(6) - INTERVAL 1 MINUTE
