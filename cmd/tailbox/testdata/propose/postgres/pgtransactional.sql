CREATE TABLE outbox (id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL, message_type text NOT NULL, segment text, concurrency text NOT NULL DEFAULT 'sequential', payload jsonb NOT NULL, metadata jsonb,
	locked_until timestamptz NOT NULL DEFAULT to_timestamp(0), created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz, abandoned_at timestamptz, started_attempts smallint NOT NULL DEFAULT 0,
	finished_attempts smallint NOT NULL DEFAULT 0);
