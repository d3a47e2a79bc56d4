-- Columns, types and indexes as in: riverqueue/river, riverdriver/riverpgxv5/migration/main 002 to 006; insert as in: internal/dbsqlc/river_job.sql (JobInsertFastMany)
-- The table as the migrations leave it, and only river_job: tailbox uses none of River's other tables.
-- The function has a body of ours with the same result. River leaves the id to the server: 1 and 2.
-- section: ddl
CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
CREATE TABLE river_job (
	id bigserial PRIMARY KEY, state river_job_state NOT NULL DEFAULT 'available', attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL,
	attempted_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(), finalized_at timestamptz, scheduled_at timestamptz NOT NULL DEFAULT now(),
	priority smallint NOT NULL DEFAULT 1, args jsonb NOT NULL, attempted_by text[], errors jsonb[], kind text NOT NULL,
	metadata jsonb NOT NULL DEFAULT '{}', queue text NOT NULL DEFAULT 'default', tags varchar(255)[] NOT NULL DEFAULT '{}',
	unique_key bytea, unique_states bit(8),
	CONSTRAINT finalized_or_finalized_at_null CHECK ((finalized_at IS NOT NULL) = (state IN ('cancelled', 'completed', 'discarded'))),
	CONSTRAINT max_attempts_is_positive CHECK (max_attempts > 0), CONSTRAINT priority_in_range CHECK (priority BETWEEN 1 AND 4),
	CONSTRAINT queue_length CHECK (char_length(queue) BETWEEN 1 AND 127), CONSTRAINT kind_length CHECK (char_length(kind) BETWEEN 1 AND 127)
);
CREATE INDEX river_job_kind ON river_job (kind);
CREATE INDEX river_job_state_and_finalized_at_index ON river_job (state, finalized_at) WHERE finalized_at IS NOT NULL;
CREATE INDEX river_job_prioritized_fetching_index ON river_job (state, queue, priority, scheduled_at, id);
CREATE INDEX river_job_args_index ON river_job USING gin (args);
CREATE INDEX river_job_metadata_index ON river_job USING gin (metadata);
CREATE FUNCTION river_job_state_in_bitmask(bitmask bit(8), state river_job_state) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT get_bit(bitmask, 8 - array_position(enum_range(state), state)) = 1 $$;
CREATE UNIQUE INDEX river_job_unique_idx ON river_job (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state);
-- section: history
INSERT INTO river_job (id, args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, finalized_at) VALUES
	(1008, '{"note": "sent before"}', 'order_placed', 25, '{}', 1, 'outbox', '2025-11-25 10:00:00Z', 'completed', '{}', '2025-11-25 10:00:00Z'),
	(1009, '{"note": "given up"}', 'order_placed', 25, '{}', 1, 'outbox', '2025-11-25 10:00:00Z', 'discarded', '{}', '2025-11-25 10:00:00Z');
-- section: good
INSERT INTO river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, unique_key, unique_states)
	VALUES ('{"order_id": 42, "note": "good-one"}', 'order_placed', 25, '{}', 1, 'outbox', '2025-11-26 10:00:00Z', 'available', '{}', NULL, NULL)
	ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state) DO UPDATE SET kind = excluded.kind
	RETURNING id;
-- section: refused
INSERT INTO river_job (args, kind, max_attempts, metadata, priority, queue, scheduled_at, state, tags, unique_key, unique_states)
	VALUES ('{"order_id": 43, "note": "refuse-me"}', 'order_placed', 25, '{}', 1, 'outbox', '2025-11-26 10:00:01Z', 'available', '{}', NULL, NULL)
	ON CONFLICT (unique_key) WHERE unique_key IS NOT NULL AND unique_states IS NOT NULL AND river_job_state_in_bitmask(unique_states, state) DO UPDATE SET kind = excluded.kind
	RETURNING id;
-- section: delivered
SELECT EXISTS (SELECT FROM river_job WHERE id = 1 AND state = 'completed' AND finalized_at IS NOT NULL AND attempt > 0 AND attempted_at IS NOT NULL);
-- section: dead
SELECT EXISTS (SELECT FROM river_job WHERE id = 2 AND state = 'discarded' AND finalized_at IS NOT NULL AND attempt > 0 AND attempted_at IS NOT NULL);
-- section: want
{"type": "order_placed", "topic": "order_placed"}
