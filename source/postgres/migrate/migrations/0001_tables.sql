-- The relay's tables. Texts that are compared or ordered have COLLATE "C": positions sort as bytes, and neither an operating system's
-- update of its collations nor a nondeterministic one may change what is equal.

-- slot and publication are what the pipeline uses, so that no other pipeline takes them for its own.
CREATE TABLE IF NOT EXISTS {checkpoint} (
	pipeline       text COLLATE "C" PRIMARY KEY,
	slot           text COLLATE "C",
	publication    text COLLATE "C",
	source_id      text,
	resume         text,
	log            bigint NOT NULL DEFAULT 0,
	last_commit    bigint NOT NULL DEFAULT 0,
	settled_above  json,
	sweep_pending  boolean NOT NULL DEFAULT false,
	started        text,
	unclean_starts integer NOT NULL DEFAULT 0,
	lease_epoch    bigint NOT NULL DEFAULT 0,
	schema_version integer NOT NULL,
	updated_at     timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row for each parked delivery:
--   message_id is the id of the user's row for ever; sent_id is the id that an edit gave the delivery. The primary key starts with the
--     message, because deliveries of one message are looked up by it.
--   alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
--   next_attempt_at is set only if the delivery is to be tried at that time: for the first blocking delivery of a lane that neither an
--     operator nor the sink '' holds up, and for deliveries that are alone. Followers have NULL, so the index tailbox_parked_due holds
--     one entry a lane however many deliveries wait in it.
--   in_table: this is not all of the message; the user's row has it.
--   row_settled: the message's other deliveries are settled, and its row has been dealt with.
--   unfinished: the row could not be dealt with because somebody had it locked; it is tried again.
--   state has two values beside those that operators see: dropped and delivered, kept until the row is dealt with.
CREATE TABLE IF NOT EXISTS {parked} (
	pipeline        text COLLATE "C" NOT NULL,
	sink            text COLLATE "C" NOT NULL,
	source_table    text COLLATE "C" NOT NULL,
	message_group   text COLLATE "C" NOT NULL,
	position        text COLLATE "C" NOT NULL,
	message_id      text COLLATE "C" NOT NULL,
	state           text COLLATE "C" NOT NULL CHECK (state OPERATOR(pg_catalog.=) ANY (ARRAY['retrying', 'waiting', 'dead', 'dropped', 'delivered'])),
	blocks          boolean NOT NULL,
	alone           boolean NOT NULL,
	attempts        integer NOT NULL DEFAULT 0,
	next_attempt_at timestamptz,
	last_error      text,
	error_class     text,
	replays         integer NOT NULL DEFAULT 0,
	sent_id         text COLLATE "C",
	in_table        boolean NOT NULL DEFAULT false,
	row_settled     boolean NOT NULL DEFAULT false,
	unfinished      boolean NOT NULL DEFAULT false,
	type            text NOT NULL,
	topic           text NOT NULL,
	key             bytea,
	payload         bytea,
	headers         json,
	fields          json,
	tenant          text,
	content_type    text,
	idempotency_key text,
	correlation_id  text,
	priority        integer NOT NULL DEFAULT 0,
	max_attempts    integer NOT NULL DEFAULT 0,
	available_at    timestamptz,
	created_at      timestamptz,
	commit_time     timestamptz,
	fault_class     text,
	fault_reason    text,
	parked_at       timestamptz NOT NULL DEFAULT now(),
	changed_at      timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (pipeline, message_id, source_table, sink)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
-- Each delivery is in exactly one of the indexes _lane and _aside.
CREATE INDEX IF NOT EXISTS tailbox_parked_lane ON {parked} (pipeline, sink, message_group, position) WHERE blocks;
CREATE INDEX IF NOT EXISTS tailbox_parked_aside ON {parked} (pipeline, sink, message_group, position) WHERE NOT blocks;
CREATE INDEX IF NOT EXISTS tailbox_parked_due ON {parked} (pipeline, sink, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS tailbox_parked_sent ON {parked} (pipeline, sent_id) WHERE sent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS tailbox_parked_unfinished ON {parked} (pipeline) WHERE unfinished;

CREATE TABLE IF NOT EXISTS {request} (
	id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	pipeline     text COLLATE "C" NOT NULL,
	verb         text COLLATE "C" NOT NULL,
	selection    json NOT NULL DEFAULT '{}',
	reason       text NOT NULL DEFAULT '',
	"by"         text NOT NULL DEFAULT current_user,
	requested_at timestamptz NOT NULL DEFAULT now(),
	done_at      timestamptz,
	result       json,
	in_force     json
);
CREATE INDEX IF NOT EXISTS tailbox_request_open ON {request} (pipeline, id) WHERE done_at IS NULL;
CREATE INDEX IF NOT EXISTS tailbox_request_in_force ON {request} (pipeline, id) WHERE in_force IS NOT NULL;

COMMENT ON TABLE {checkpoint} IS 'tailbox: how far each pipeline has come; written by the relay only';
COMMENT ON TABLE {parked} IS 'tailbox: deliveries that are retried, wait, or are dead letters; written by the relay only (tailbox dead list)';
COMMENT ON TABLE {request} IS 'tailbox: what operators asked for, and the audit of it';
