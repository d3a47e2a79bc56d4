CREATE TABLE ephemeral_outbox_events (event_type varchar NOT NULL UNIQUE, payload jsonb NOT NULL, tracing_context jsonb, recorded_at timestamptz NOT NULL DEFAULT now());
INSERT INTO ephemeral_outbox_events (event_type, payload) VALUES ('price', '{"price": 1}');
