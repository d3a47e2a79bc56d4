CREATE TABLE outbox (id bigserial PRIMARY KEY, event_name text NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL, payload jsonb NOT NULL, status char(1) NOT NULL DEFAULT 'P');
INSERT INTO outbox (event_name, aggregate_type, aggregate_id, payload, status) SELECT 'Placed', 'order', '1', '{}', s FROM unnest(ARRAY['P', 'S', 'F']) s;
