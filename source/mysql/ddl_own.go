package mysql

import "strings"

// schemaVersion is the version of the tables tailbox_*. It grows when their meaning changes; Init brings older tables up
// to date, and a store refuses newer ones.
const schemaVersion = 1

// names are the relay's own tables, qualified and quoted.
type names struct{ checkpoint, parked, request string }

// tableNames qualifies the relay's tables; schema "" leaves them to the default database.
func tableNames(schema string) names {
	q := func(name string) string {
		if schema == "" {
			return quoteIdent(name)
		}
		return quoteIdent(schema) + "." + quoteIdent(name)
	}
	return names{q("tailbox_checkpoint"), q("tailbox_parked"), q("tailbox_request")}
}

// expand puts the tables in the place of {checkpoint}, {parked} and {request} in a statement.
func (n names) expand(sql string) string {
	return strings.NewReplacer("{checkpoint}", n.checkpoint, "{parked}", n.parked, "{request}", n.request).Replace(sql)
}

// ownTables makes the relay's tables, in one statement each. Every statement can be repeated.
//
// What is compared is compared as bytes: names of ours are ASCII in a binary collation, texts of applications (ids, groups,
// tables) are VARBINARY. No collation makes two groups one, and trailing spaces count. What a message is made of is kept
// in blobs, byte for byte, whatever the character set of the user's table. Times are UTC by the server's clock, in
// microseconds.
//
// tailbox_parked, one row a parked delivery:
//   - message_id is the id of the user's row for ever; sent_id is the id that an edit gave the delivery. The primary key
//     starts with the message, because that is how deliveries of one message are looked up.
//   - alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
//   - next_attempt_at is set only where the delivery is to be tried at that time: the first blocking delivery of a lane
//     that neither an operator nor the sink ” holds up, and deliveries that are alone. Followers have NULL, so that what
//     is due is found without a look at what waits.
//   - attempts are the failures that count against the message, tries all of them, tried_at the time of the last one.
//     failed_epoch and failed_call are what the relay notes about that: a term of its own, and the call to the sink. The index
//     _untried leads to those that a probe takes first, however many others are due.
//   - in_table: what is here is not all of the message; the user's row has it.
//   - row_settled: the message's other deliveries are settled, and its row has been dealt with.
//   - unfinished: the row could not be dealt with because somebody had it locked; it is tried again.
//   - state has two values beside those that operators see: dropped and delivered, kept until the row is dealt with.
//   - payload_bytes is the payload's length: to ask for it alone would read the payload.
func ownTables() []string {
	var statements []string
	for _, sql := range []string{ownCheckpoint, ownParked, ownRequest} {
		statements = append(statements, strings.TrimSpace(sql)+" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin")
	}
	return statements
}

const (
	ownCheckpoint = `
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
)`

	ownParked = `
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
	` + "`key`" + `           LONGBLOB,
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
)`

	ownRequest = `
CREATE TABLE IF NOT EXISTS {request} (
	id           BIGINT NOT NULL AUTO_INCREMENT,
	pipeline     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	verb         VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	selection    JSON NOT NULL DEFAULT ('{}'),
	reason       LONGTEXT NOT NULL DEFAULT (''),
	` + "`by`" + `           VARCHAR(512) NOT NULL DEFAULT (CURRENT_USER()),
	requested_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
	done_at      DATETIME(6),
	result       JSON,
	in_force     JSON,
	PRIMARY KEY (id),
	KEY tailbox_request_open (pipeline, done_at, id)
)`
)

// What brings a table tailbox_parked of a version that counted attempts alone up to date, in this order. What was done before an error stays: the
// index comes last, and says that the rest was done.
const (
	addTries = `ALTER TABLE {parked} ADD COLUMN tries INT NOT NULL DEFAULT 0, ADD COLUMN failed_epoch BIGINT NOT NULL DEFAULT 0, ` +
		`ADD COLUMN failed_call BIGINT NOT NULL DEFAULT 0, ADD COLUMN tried_at DATETIME(6)`
	fillTries  = `UPDATE {parked} SET tries = attempts, tried_at = changed_at WHERE tries < attempts`
	indexTries = `ALTER TABLE {parked} ADD KEY tailbox_parked_untried (pipeline, sink, tries, next_attempt_at)`
)

// updateScript is the same as statements that can be repeated: the server has no ADD COLUMN IF NOT EXISTS.
func updateScript(schema string) string {
	n := tableNames(schema)
	in := "DATABASE()"
	if schema != "" {
		in = quoteLiteral(schema)
	}
	once := func(sql, view, column, name string) string {
		return "SET @tailbox = (SELECT IF(COUNT(*) > 0, 'DO 0', " + quoteLiteral(n.expand(sql)) + ") FROM information_schema." + view +
			" WHERE TABLE_SCHEMA = " + in + " AND TABLE_NAME = 'tailbox_parked' AND " + column + " = " + quoteLiteral(name) + ");\n" +
			"PREPARE tailbox FROM @tailbox;\nEXECUTE tailbox;\nDEALLOCATE PREPARE tailbox;\n"
	}
	return once(addTries, "COLUMNS", "COLUMN_NAME", "tries") + n.expand(fillTries) + ";\n" +
		once(indexTries, "STATISTICS", "INDEX_NAME", "tailbox_parked_untried") + "\n"
}
