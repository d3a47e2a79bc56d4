CREATE TABLE outbox_record (id varchar(255) PRIMARY KEY, status varchar(20) NOT NULL, record_key varchar(255) NOT NULL, record_type varchar(255) NOT NULL, payload longtext NOT NULL, context longtext, created_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
	completed_at timestamp(6) NULL, failure_count int NOT NULL, failure_reason varchar(1000), next_retry_at timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), partition_no int NOT NULL, handler_id varchar(1000) NOT NULL);
INSERT INTO outbox_record (id, status, record_key, record_type, payload, context, failure_count, partition_no, handler_id) VALUES ('a', 'NEW', 'o:1', 'Placed', '{}', '{}', 0, 1, 'h'), ('b', 'COMPLETED', 'o:1', 'Placed', '{}', '{}', 0, 1, 'h'),
	('c', 'FAILED', 'o:1', 'Placed', '{}', '{}', 3, 1, 'h');
