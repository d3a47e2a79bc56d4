-- The relay's tables after migration 0003_migration, with rows in each state.

CREATE TABLE IF NOT EXISTS tailbox_checkpoint (
	pipeline       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	source_id      TEXT,
	resume         LONGTEXT,
	log            INT UNSIGNED NOT NULL DEFAULT 0,
	last_commit    BIGINT UNSIGNED NOT NULL DEFAULT 0,
	settled_above  JSON,
	sweep_pending  BOOLEAN NOT NULL DEFAULT FALSE,
	started        VARCHAR(60) CHARACTER SET ascii COLLATE ascii_bin,
	unclean_starts INT NOT NULL DEFAULT 0,
	lease_epoch    BIGINT NOT NULL DEFAULT 0,
	schema_version INT NOT NULL,
	updated_at     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	PRIMARY KEY (pipeline)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tailbox_parked (
	pipeline        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	sink            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	source_table    VARBINARY(516) NOT NULL,
	message_group   VARBINARY(2048) NOT NULL,
	position        VARCHAR(34) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	message_id      VARBINARY(1024) NOT NULL,
	state           VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	blocks          BOOLEAN NOT NULL,
	alone           BOOLEAN NOT NULL,
	attempts        INT NOT NULL DEFAULT 0,
	tries           INT NOT NULL DEFAULT 0,
	failed_epoch    BIGINT NOT NULL DEFAULT 0,
	failed_call     BIGINT NOT NULL DEFAULT 0,
	tried_at        DATETIME(6),
	next_attempt_at DATETIME(6),
	last_error      TEXT,
	error_class     VARCHAR(64),
	replays         INT NOT NULL DEFAULT 0,
	sent_id         VARBINARY(1024),
	in_table        BOOLEAN NOT NULL DEFAULT FALSE,
	row_settled     BOOLEAN NOT NULL DEFAULT FALSE,
	unfinished      BOOLEAN NOT NULL DEFAULT FALSE,
	type            LONGBLOB NOT NULL,
	topic           LONGBLOB NOT NULL,
	`key`           LONGBLOB,
	payload         LONGBLOB,
	payload_bytes   INT UNSIGNED NOT NULL DEFAULT 0,
	headers         LONGBLOB,
	fields          LONGBLOB,
	tenant          LONGBLOB,
	content_type    LONGBLOB,
	idempotency_key LONGBLOB,
	correlation_id  LONGBLOB,
	priority        INT NOT NULL DEFAULT 0,
	max_attempts    INT NOT NULL DEFAULT 0,
	available_at    DATETIME(6),
	created_at      DATETIME(6),
	commit_time     DATETIME(6),
	fault_class     VARCHAR(64),
	fault_reason    TEXT,
	parked_at       DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	changed_at      DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	PRIMARY KEY (pipeline, message_id, source_table, sink),
	KEY tailbox_parked_lane (pipeline, blocks, sink, message_group, position),
	KEY tailbox_parked_due (pipeline, sink, next_attempt_at),
	KEY tailbox_parked_untried (pipeline, sink, tries, next_attempt_at),
	KEY tailbox_parked_sent (pipeline, sent_id),
	KEY tailbox_parked_unfinished (pipeline, unfinished)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tailbox_request (
	id           BIGINT NOT NULL AUTO_INCREMENT,
	pipeline     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	verb         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	selection    JSON NOT NULL DEFAULT ('{}'),
	reason       LONGTEXT NOT NULL DEFAULT (''),
	`by`           VARCHAR(512) NOT NULL DEFAULT (CURRENT_USER()),
	requested_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	done_at      DATETIME(6),
	result       JSON,
	in_force     JSON,
	PRIMARY KEY (id),
	KEY tailbox_request_open (pipeline, done_at, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;


INSERT INTO tailbox_checkpoint (pipeline, source_id, resume, log, last_commit, settled_above, sweep_pending, started, unclean_starts, lease_epoch, schema_version) VALUES
	('p', 's', '0/1', 1, 100, '{"kafka": [["00000001-000000000000006c-00000000", "00000001-000000000000006d-00000000"]]}', true,
		'00000001-000000000000006e-00000000*1', 2, 7, 1),
	('another', NULL, NULL, 0, 0, NULL, false, NULL, 0, 0, 1);
INSERT INTO tailbox_parked (pipeline, sink, source_table, message_group, position, message_id, state, blocks, alone, attempts, tries, failed_epoch,
	failed_call, tried_at, next_attempt_at, last_error, error_class, row_settled, type, topic, payload, sent_id) VALUES
	('p', 'kafka', 'outbox', 'g', '00000001-0000000000000065-00000000', '1', 'retrying', true, false, 4, 6, 7, 41, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE, 'boom', 'rejected', false, 'T', 't', '{}', NULL),
	('p', 'kafka', 'outbox', 'g', '00000001-0000000000000066-00000000', '2', 'waiting', true, false, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, 'T', 't', '{}', '2-edited'),
	('p', 'kafka', 'outbox', 'h', '00000001-0000000000000067-00000000', '3', 'dead', true, false, 15, 15, 6, 12, UTC_TIMESTAMP(6), NULL, 'bad', 'permanent', true, 'T', 't', '{}', NULL),
	('p', 'kafka', 'outbox', 'h', '00000001-0000000000000068-00000000', '4', 'dropped', false, false, 2, 2, 6, 13, UTC_TIMESTAMP(6), NULL, 'dropped', 'dropped', true, 'T', 't', '{}', NULL),
	('p', 'kafka', 'outbox', 'i', '00000001-0000000000000069-00000000', '5', 'delivered', false, false, 3, 3, 0, 0, UTC_TIMESTAMP(6), NULL, NULL, NULL, false, 'T', 't', '{}', NULL),
	('p', 'kafka', 'outbox', 'j', '00000001-000000000000006a-00000000', '6', 'waiting', true, false, 0, 0, 0, 0, NULL, UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE, NULL, NULL, true, 'T', 't', '{}', NULL),
	('p', 'kafka', 'outbox', 'k', '00000001-000000000000006b-00000000', '7', 'waiting', true, false, 0, 0, 0, 0, NULL, NULL, NULL, NULL, true, 'T', 't', '{}', NULL),
	('p', 'mail', 'outbox', '', '00000001-000000000000006b-00000000', '7', 'retrying', false, true, 1, 1, 7, 3, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE, 'boom', 'rejected', true, 'T', 't', '{}', NULL);
INSERT INTO tailbox_request (pipeline, verb, selection, reason, `by`, done_at, result, in_force) VALUES
	('p', 'hold', '{"groups": ["k"]}', 'why', 'ana', UTC_TIMESTAMP(6), '{"changed": 1}', '{"lanes": [["kafka", "k"]]}'),
	('p', 'pause', '{"sinks": ["mail"]}', '', 'ana', UTC_TIMESTAMP(6), '{"changed": 1}', '{"sinks": ["mail"]}'),
	('p', 'replay', '{"sink": "kafka", "ids": ["3"]}', '', 'ana', NULL, NULL, NULL),
	('another', 'drop', '{"all": true}', '', 'ben', NULL, NULL, NULL);

ALTER TABLE tailbox_checkpoint ADD COLUMN migration INT NOT NULL DEFAULT 3;
