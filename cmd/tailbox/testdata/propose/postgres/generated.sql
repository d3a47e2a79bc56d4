-- Columns that the server computes: nobody can write them, and the log does not hold them.
CREATE TABLE outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  payload jsonb NOT NULL,
  aggregate_id text GENERATED ALWAYS AS (payload ->> 'order') STORED,
  event_type text NOT NULL,
  processed_at timestamptz,
  attempts int NOT NULL DEFAULT 0,
  failed_at timestamptz GENERATED ALWAYS AS (CASE WHEN attempts > 9 THEN processed_at END) STORED,
  status text GENERATED ALWAYS AS (CASE WHEN processed_at IS NULL THEN 'pending' ELSE 'done' END) STORED,
  created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO outbox (payload, event_type, processed_at) VALUES ('{"order": "o-1"}', 'placed', NULL), ('{"order": "o-2"}', 'placed', now()), ('{"order": "o-1"}', 'paid', NULL);
