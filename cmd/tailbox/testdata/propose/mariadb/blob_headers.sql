CREATE TABLE outbox_events (id bigint AUTO_INCREMENT PRIMARY KEY, kind varchar(40) NOT NULL, headers blob, payload blob NOT NULL, published_at timestamp NULL);
INSERT INTO outbox_events (kind, headers, payload) VALUES ('Placed', '{"trace_id": "é1"}', X'0FFF81030101');
