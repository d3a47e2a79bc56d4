-- The relay's tables. What is compared is compared as bytes: names of tailbox are ASCII in a binary collation, texts of applications (ids,
-- groups, tables) are VARBINARY. No collation makes two groups one, and trailing spaces count. The parts of a message are blobs, byte
-- for byte, whatever the character set of the user's table. Times are UTC by the server's clock, in microseconds.

CREATE TABLE IF NOT EXISTS {checkpoint} (
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

-- One row for each parked delivery:
--   message_id is the id of the user's row for ever; sent_id is the id that an edit gave the delivery. The primary key starts with the
--     message, because deliveries of one message are looked up by it.
--   alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
--   next_attempt_at is set only if the delivery is to be tried at that time: for the first blocking delivery of a lane that neither an
--     operator nor the sink '' holds up, and for deliveries that are alone. Followers have NULL, so what is due is
--     found without a look at what waits.
--   in_table: this is not all of the message; the user's row has it.
--   row_settled: the message's other deliveries are settled, and its row has been dealt with.
--   unfinished: the row could not be dealt with because somebody had it locked; it is tried again.
--   state has two values beside those that operators see: dropped and delivered, kept until the row is dealt with.
--   payload_bytes is the payload's length, because LENGTH(payload) would read the payload.
CREATE TABLE IF NOT EXISTS {parked} (
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
	KEY tailbox_parked_sent (pipeline, sent_id),
	KEY tailbox_parked_unfinished (pipeline, unfinished)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {request} (
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
