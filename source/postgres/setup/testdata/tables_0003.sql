-- The relay's tables after migration 0003_migration, with rows in each state.

CREATE TABLE IF NOT EXISTS tailbox_checkpoint (
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

CREATE TABLE IF NOT EXISTS tailbox_parked (
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
	tries           integer NOT NULL DEFAULT 0,
	failed_epoch    bigint NOT NULL DEFAULT 0,
	failed_call     bigint NOT NULL DEFAULT 0,
	tried_at        timestamptz,
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
CREATE INDEX IF NOT EXISTS tailbox_parked_lane ON tailbox_parked (pipeline, sink, message_group, position) WHERE blocks;
CREATE INDEX IF NOT EXISTS tailbox_parked_aside ON tailbox_parked (pipeline, sink, message_group, position) WHERE NOT blocks;
CREATE INDEX IF NOT EXISTS tailbox_parked_due ON tailbox_parked (pipeline, sink, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS tailbox_parked_untried ON tailbox_parked (pipeline, sink, next_attempt_at) WHERE next_attempt_at IS NOT NULL AND tries OPERATOR(pg_catalog.=) 0;
CREATE INDEX IF NOT EXISTS tailbox_parked_sent ON tailbox_parked (pipeline, sent_id) WHERE sent_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS tailbox_parked_unfinished ON tailbox_parked (pipeline) WHERE unfinished;

CREATE TABLE IF NOT EXISTS tailbox_request (
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
CREATE INDEX IF NOT EXISTS tailbox_request_open ON tailbox_request (pipeline, id) WHERE done_at IS NULL;
CREATE INDEX IF NOT EXISTS tailbox_request_in_force ON tailbox_request (pipeline, id) WHERE in_force IS NOT NULL;

COMMENT ON TABLE tailbox_checkpoint IS 'tailbox: how far each pipeline has come; written by the relay only';
COMMENT ON TABLE tailbox_parked IS 'tailbox: deliveries that are retried, wait, or are dead letters; written by the relay only (tailbox dead list)';
COMMENT ON TABLE tailbox_request IS 'tailbox: what operators asked for, and the audit of it';

INSERT INTO tailbox_checkpoint (pipeline, source_id, resume, log, last_commit, settled_above, sweep_pending, started, unclean_starts, lease_epoch, schema_version) VALUES
	('p', 's', '0/1', 1, 100, '{"kafka": [["00000001-000000000000006c-00000000", "00000001-000000000000006d-00000000"]]}', true,
		'00000001-000000000000006e-00000000*1', 2, 7, 1),
	('another', NULL, NULL, 0, 0, NULL, false, NULL, 0, 0, 1);
INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, attempts, tries, failed_epoch,
	failed_call, tried_at, next_attempt_at, last_error, error_class, row_settled, type, topic, payload, sent_id) VALUES
	('p', 'kafka', 'public.outbox', 'g', '00000001-0000000000000065-00000000', '1', 'retrying', true, false, 4, 6, 7, 41, now(), now() - interval '1 minute', 'boom', 'rejected', false, 'T', 't', '{}'::bytea, NULL),
	('p', 'kafka', 'public.outbox', 'g', '00000001-0000000000000066-00000000', '2', 'waiting', true, false, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, 'T', 't', '{}'::bytea, '2-edited'),
	('p', 'kafka', 'public.outbox', 'h', '00000001-0000000000000067-00000000', '3', 'dead', true, false, 15, 15, 6, 12, now(), NULL, 'bad', 'permanent', true, 'T', 't', '{}'::bytea, NULL),
	('p', 'kafka', 'public.outbox', 'h', '00000001-0000000000000068-00000000', '4', 'dropped', false, false, 2, 2, 6, 13, now(), NULL, 'dropped', 'dropped', true, 'T', 't', '{}'::bytea, NULL),
	('p', 'kafka', 'public.outbox', 'i', '00000001-0000000000000069-00000000', '5', 'delivered', false, false, 3, 3, 0, 0, now(), NULL, NULL, NULL, false, 'T', 't', '{}'::bytea, NULL),
	('p', 'kafka', 'public.outbox', 'j', '00000001-000000000000006a-00000000', '6', 'waiting', true, false, 0, 0, 0, 0, NULL, now() - interval '1 minute', NULL, NULL, true, 'T', 't', '{}'::bytea, NULL),
	('p', 'kafka', 'public.outbox', 'k', '00000001-000000000000006b-00000000', '7', 'waiting', true, false, 0, 0, 0, 0, NULL, NULL, NULL, NULL, true, 'T', 't', '{}'::bytea, NULL),
	('p', 'mail', 'public.outbox', '', '00000001-000000000000006b-00000000', '7', 'retrying', false, true, 1, 1, 7, 3, now(), now() - interval '1 minute', 'boom', 'rejected', true, 'T', 't', '{}'::bytea, NULL);
INSERT INTO tailbox_request (pipeline, verb, selection, reason, "by", done_at, result, in_force) VALUES
	('p', 'hold', '{"groups": ["k"]}', 'why', 'ana', now(), '{"changed": 1}', '{"lanes": [["kafka", "k"]]}'),
	('p', 'pause', '{"sinks": ["mail"]}', '', 'ana', now(), '{"changed": 1}', '{"sinks": ["mail"]}'),
	('p', 'replay', '{"sink": "kafka", "ids": ["3"]}', '', 'ana', NULL, NULL, NULL),
	('another', 'drop', '{"all": true}', '', 'ben', NULL, NULL, NULL);

ALTER TABLE tailbox_checkpoint ADD COLUMN migration integer NOT NULL DEFAULT 3;
