CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'executing', 'pending', 'retryable', 'running', 'scheduled');
CREATE TABLE river_job (id bigserial PRIMARY KEY, state river_job_state NOT NULL DEFAULT 'available', attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL, attempted_at timestamptz, created_at timestamptz NOT NULL DEFAULT now(),
	finalized_at timestamptz, scheduled_at timestamptz NOT NULL DEFAULT now(), priority smallint NOT NULL DEFAULT 1, args jsonb NOT NULL, attempted_by text[], errors jsonb[], kind text NOT NULL, metadata jsonb NOT NULL DEFAULT '{}',
	queue text NOT NULL DEFAULT 'default', tags varchar(255)[] NOT NULL DEFAULT '{}',
	CONSTRAINT finalized_or_finalized_at_null CHECK ((finalized_at IS NOT NULL) = (state IN ('cancelled', 'completed', 'discarded'))));
