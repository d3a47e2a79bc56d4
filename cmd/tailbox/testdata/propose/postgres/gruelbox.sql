CREATE TABLE txno_outbox (id varchar(36) PRIMARY KEY, invocation text, nextattempttime timestamp(6), attempts int, blocked boolean, version int, uniquerequestid varchar(250) UNIQUE,
	processed boolean, lastattempttime timestamp(6), topic varchar(250) NOT NULL DEFAULT '*', seq bigint);
INSERT INTO txno_outbox VALUES ('a', '{"c": "Mail", "m": "send"}', now(), 0, false, 0, NULL, false, NULL, '*', NULL);
