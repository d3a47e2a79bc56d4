-- outbox-pattern-processor (deroldo/outbox-pattern-processor, database/README.md): each row names where it goes
CREATE TABLE outbox (
  idempotent_key uuid PRIMARY KEY,
  partition_key uuid NOT NULL,
  destinations jsonb NOT NULL,
  headers jsonb,
  payload text NOT NULL,
  attempts int NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  process_after timestamptz NOT NULL DEFAULT now(),
  processed_at timestamptz
);
INSERT INTO outbox (idempotent_key, partition_key, destinations, headers, payload) VALUES
  ('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-0000000000a1', '[{"url": "http://127.0.0.1/first", "method": "PUT"}]', '{"x-event-type": "creation"}', '{"foo": "bar"}');
