CREATE TABLE timers (id bigserial PRIMARY KEY, aggregate text NOT NULL, aggregate_id text NOT NULL, event text NOT NULL, custom_headers json NOT NULL, payload json NOT NULL,
  attempts_count int NOT NULL DEFAULT 0, next_attempt_at timestamptz NOT NULL DEFAULT now());
INSERT INTO timers (aggregate, aggregate_id, event, custom_headers, payload, next_attempt_at) VALUES
  ('order', '1', 'OrderPlaced', '[]', '{"n": 1}', now()),
  ('order', '1', 'OrderExpired', '{"trace": "a"}', '{"n": 2}', now() + interval '10 minutes');
