CREATE TABLE outbox_events (id uuid PRIMARY KEY, event_type text NOT NULL, stream_name text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL, published_at timestamptz, failed_at timestamptz);
INSERT INTO outbox_events VALUES (gen_random_uuid(), 'Placed', 'order-1', '{}', now(), NULL, now());
