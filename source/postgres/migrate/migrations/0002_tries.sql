-- attempts are the failures that count against the message, tries all of them, tried_at the time of the last one. failed_epoch and
-- failed_call are what the relay notes about that: a term of its own, and the call to the sink. The columns are filled in the statement
-- that adds them: nobody may change rows in between, because the relay finds them by their place. It is one line, so that a tool that
-- splits scripts at semicolons at the end of a line keeps it whole.
DO $$ BEGIN ALTER TABLE {parked} ADD COLUMN IF NOT EXISTS tries integer NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS failed_epoch bigint NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS failed_call bigint NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS tried_at timestamptz; UPDATE {parked} SET tries = attempts, tried_at = changed_at WHERE tries OPERATOR(pg_catalog.<) attempts; END $$;

-- It leads to the deliveries that a probe takes first, however many others are due.
CREATE INDEX IF NOT EXISTS tailbox_parked_untried ON {parked} (pipeline, sink, next_attempt_at) WHERE next_attempt_at IS NOT NULL AND tries OPERATOR(pg_catalog.=) 0;
