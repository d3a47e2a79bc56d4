CREATE TABLE outbox (id varchar(24) PRIMARY KEY, event_type varchar(50) NOT NULL, payload text NOT NULL, created_at datetime NOT NULL, updated_at datetime, status varchar(50) NOT NULL DEFAULT 'pending', retry_count int unsigned NOT NULL DEFAULT 0,
	last_retry_at datetime, message varchar(2000));
INSERT INTO outbox (id, event_type, payload, created_at, status, message) VALUES ('a', 'MemberCreated', '{}', NOW(), 'pending', NULL), ('b', 'MemberCreated', '{}', NOW(), 'failed', 'refused');
