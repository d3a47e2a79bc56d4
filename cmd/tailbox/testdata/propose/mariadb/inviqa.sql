CREATE TABLE kafka_outbox (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, batch_id char(36) NULL, push_started_at datetime NULL, push_completed_at datetime NULL, topic varchar(255) NOT NULL, payload_json json NOT NULL,
	payload_headers json NOT NULL, push_attempts tinyint NOT NULL DEFAULT 0, errored tinyint NOT NULL DEFAULT 0, error_reason varchar(255) NOT NULL DEFAULT '', created_at datetime DEFAULT CURRENT_TIMESTAMP,
	partition_key varchar(255) NOT NULL DEFAULT '', `key` varchar(255) NOT NULL DEFAULT '');
INSERT INTO kafka_outbox (topic, payload_json, payload_headers, push_completed_at, errored, push_attempts) VALUES ('t', '{}', '{}', now(), 0, 1), ('t', '{}', '{}', NULL, 1, 3), ('t', '{}', '{}', NULL, 0, 0);
