CREATE TABLE outbox (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, scheduled_at timestamptz NOT NULL, metadata bytea, payload bytea NOT NULL, times_attempted int NOT NULL);
