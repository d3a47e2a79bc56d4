CREATE TABLE outbox (id bigserial PRIMARY KEY, event_type text NOT NULL, aggregate_type text, aggregate_id text NOT NULL, payload text NOT NULL, published boolean NOT NULL DEFAULT false, published_at timestamptz, delay interval,
	created_at timestamptz NOT NULL DEFAULT now(), destination text NOT NULL DEFAULT 'internal');
ALTER SEQUENCE outbox_id_seq CACHE 20;
INSERT INTO outbox (event_type, aggregate_type, aggregate_id, payload, published, published_at, created_at) VALUES ('Placed', NULL, '1', E'{"n": 1}\n{"n": 2}', true, NULL, '2026-05-01'), ('Paid', 'Order', '1', '{"n": 3}', false, NULL, '2026-05-01');
