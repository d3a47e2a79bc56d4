CREATE TABLE notifications (record_id serial PRIMARY KEY, class_name varchar(256) NOT NULL, event_json text NOT NULL, user_token varchar(36), created_date datetime NOT NULL, creating_owner varchar(50) NOT NULL, processing_owner varchar(50) DEFAULT NULL,
	processing_available_date datetime DEFAULT NULL, processing_state varchar(14) DEFAULT 'AVAILABLE', error_count int unsigned DEFAULT 0, search_key1 int unsigned DEFAULT NULL, search_key2 int unsigned DEFAULT NULL, queue_name varchar(64) NOT NULL,
	effective_date datetime NOT NULL, future_user_token varchar(36));
INSERT INTO notifications (class_name, event_json, created_date, creating_owner, queue_name, effective_date) VALUES ('Due', '{}', NOW(), 'a', 'q', NOW() + INTERVAL 30 DAY), ('Due', '{}', NOW(), 'a', 'q', NOW());
