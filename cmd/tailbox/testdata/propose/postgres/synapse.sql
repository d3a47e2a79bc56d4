CREATE TABLE device_federation_outbox (destination text NOT NULL, stream_id bigint NOT NULL, queued_ts bigint NOT NULL, messages_json text NOT NULL, instance_name text);
CREATE INDEX ON device_federation_outbox (stream_id);
INSERT INTO device_federation_outbox VALUES ('a.example', 7, 1760000000000, '{"edus": []}', 'master'), ('b.example', 7, 1760000000000, '{"edus": []}', 'master');
