CREATE TABLE TXNO_OUTBOX (id varchar(36) PRIMARY KEY, invocation mediumtext, nextAttemptTime timestamp(6) NULL, attempts int, blocked varchar(250), version int, uniqueRequestId varchar(250) UNIQUE, processed boolean,
	lastAttemptTime timestamp(6) NULL, seq bigint, topic varchar(250) NOT NULL DEFAULT '*');
INSERT INTO TXNO_OUTBOX (id, invocation, attempts, blocked, version, processed) VALUES ('a', '{}', 0, '0', 1, 0), ('b', '{}', 5, '1', 1, 0);
