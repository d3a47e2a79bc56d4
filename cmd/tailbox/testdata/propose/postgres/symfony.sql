CREATE TABLE messenger_messages (id bigserial PRIMARY KEY, body text NOT NULL, headers text NOT NULL, queue_name varchar(190) NOT NULL, created_at timestamp NOT NULL, available_at timestamp NOT NULL, delivered_at timestamp);
INSERT INTO messenger_messages (body, headers, queue_name, created_at, available_at) VALUES ('{}', '{"type": "App\\Message\\Placed"}', 'outbox', now(), now());
