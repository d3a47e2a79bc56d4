CREATE TABLE outbox_messages (id bigint(20) unsigned NOT NULL AUTO_INCREMENT, consumed tinyint(1) unsigned NOT NULL DEFAULT 0, payload varchar(16001) NOT NULL, PRIMARY KEY (id), KEY is_consumed (consumed, id));
INSERT INTO outbox_messages (consumed, payload) VALUES (1, '{"headers": {"__event_type": "placed"}, "payload": {}}'), (0, '{"headers": {"__event_type": "paid"}, "payload": {}}');
