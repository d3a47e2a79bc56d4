package postgres

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store"
)

// schemaVersion is the version of the tables tailbox_*. It grows when their meaning changes; Init brings older tables up
// to date, and a store refuses newer ones.
const schemaVersion = 1

// names are the relay's own tables, qualified and quoted.
type names struct{ checkpoint, parked, request string }

// tableNames qualifies the relay's tables; schema "" leaves them to the search path.
func tableNames(schema string) names {
	q := func(name string) string {
		if schema == "" {
			return name
		}
		return quoteIdent(schema) + "." + name
	}
	return names{q("tailbox_checkpoint"), q("tailbox_parked"), q("tailbox_request")}
}

// A grant is what a role may do with a table.
type grant struct {
	table      string
	privileges []string
}

// grants are what the relay does with its own tables. What it knows, and what was asked for, only the owner removes.
func (n names) grants() []grant {
	return []grant{{n.checkpoint, []string{"SELECT", "INSERT", "UPDATE"}}, {n.parked, []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{n.request, []string{"SELECT", "INSERT", "UPDATE"}}}
}

// expand puts the tables in the place of {checkpoint}, {parked} and {request} in a statement.
func (n names) expand(sql string) string {
	return strings.NewReplacer("{checkpoint}", n.checkpoint, "{parked}", n.parked, "{request}", n.request).Replace(sql)
}

// ownTables makes the relay's tables. Every statement can be repeated.
//
// Texts that are compared or ordered have COLLATE "C": positions sort as bytes, and neither an operating system's update of
// its collations nor a nondeterministic one may change what is equal.
//
// tailbox_checkpoint: slot and publication are what the pipeline uses, so that no other takes them for its own.
//
// tailbox_parked, one row a parked delivery:
//   - message_id is the id of the user's row for ever; sent_id is the id that an edit gave the delivery. The primary key
//     starts with the message, because that is how deliveries of one message are looked up; that it is unique per
//     (pipeline, sink, source_table, message_id) does not depend on the order of its columns.
//   - alone: the delivery is a lane of its own (no group, or a time of its own), so it never blocks.
//   - next_attempt_at is set only where the delivery is to be tried at that time: the first blocking delivery of a lane
//     that neither an operator nor the sink ” holds up, and deliveries that are alone. Followers have NULL, so that the
//     index tailbox_parked_due holds one entry a lane however many deliveries wait in it.
//   - attempts are the failures that count against the message, tries all of them, tried_at the time of the last one.
//     failed_epoch and failed_call are what the relay notes about that: a term of its own, and the call to the sink.
//   - in_table: what is here is not all of the message; the user's row has it.
//   - row_settled: the message's other deliveries are settled, and its row has been dealt with.
//   - unfinished: the row could not be dealt with because somebody had it locked; it is tried again.
//   - state has two values beside those that operators see: dropped and delivered, kept until the row is dealt with.
//
// Each delivery is in exactly one of the indexes _lane and _aside. The index _untried leads to those that a probe takes first, however
// many others are due.
const ownTables = `
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
` + triesAdded + `
CREATE INDEX IF NOT EXISTS tailbox_parked_lane ON {parked} (pipeline, sink, message_group, position) WHERE blocks;
CREATE INDEX IF NOT EXISTS tailbox_parked_aside ON {parked} (pipeline, sink, message_group, position) WHERE NOT blocks;
CREATE INDEX IF NOT EXISTS tailbox_parked_due ON {parked} (pipeline, sink, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS tailbox_parked_untried ON {parked} (pipeline, sink, next_attempt_at) WHERE next_attempt_at IS NOT NULL AND tries OPERATOR(pg_catalog.=) 0;
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
`

// triesAdded brings a table of a version that counted attempts alone up to date, in one statement: nobody may change rows between its
// parts, since the relay finds them by their place.
const triesAdded = `DO $$ BEGIN ALTER TABLE {parked} ADD COLUMN IF NOT EXISTS tries integer NOT NULL DEFAULT 0, ` +
	`ADD COLUMN IF NOT EXISTS failed_epoch bigint NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS failed_call bigint NOT NULL DEFAULT 0, ` +
	`ADD COLUMN IF NOT EXISTS tried_at timestamptz; ` +
	`UPDATE {parked} SET tries = attempts, tried_at = changed_at WHERE tries OPERATOR(pg_catalog.<) attempts; END $$;`

// SetupSQL is what Init creates, as one script for a migration tool: the relay's tables, the outbox tables whose shape is
// ours, and the publication. It can be run again. The slot is no part of it: it is made by `tailbox init`, after the
// publication, because the log knows a publication only from its creation on.
func SetupSQL(cfg Config) (string, error) {
	var b strings.Builder
	b.WriteString(store.GrantsComment("--", RoleSQL(cfg, "tailbox"), ClientSQL(cfg, "support")))
	b.WriteString(strings.TrimSpace(tableNames(cfg.Schema).expand(ownTables)))
	b.WriteString("\n")
	for i := range cfg.Tables {
		sql, err := outboxSQL(&cfg.Tables[i])
		if err != nil {
			return "", err
		}
		b.WriteString("\n" + sql)
		if cfg.Poll {
			b.WriteString(seqIndexSQL(&cfg.Tables[i]))
		}
	}
	if cfg.Poll {
		b.WriteString("\n-- source.read is poll: neither a publication nor a slot is needed.\n")
		return b.String(), nil
	}
	b.WriteString("\n" + publicationSQL(cfg))
	return b.String(), nil
}

// ClientSQL is what a role needs to ask for verbs in plain SQL, and no more: who asked, when, and what came of it, is not its to write.
func ClientSQL(cfg Config, role string) string {
	return "GRANT INSERT (pipeline, verb, selection, reason), SELECT (id) ON " + tableNames(cfg.Schema).request +
		" TO " + quoteIdent(role) + ";\n"
}

// RoleSQL is what a role needs that does nothing but run the relay. The role exists already, with LOGIN; REPLICATION is
// what reading the log takes; polling takes to read the
// sequence instead. UPDATE on a table whose rows are deleted serves to pass over rows that the application
// has locked (FOR UPDATE SKIP LOCKED); Postgres asks for it on any one column, and nothing is written there.
func RoleSQL(cfg Config, role string) string {
	var b strings.Builder
	r := quoteIdent(role)
	n := tableNames(cfg.Schema)
	if !cfg.Poll {
		b.WriteString("ALTER ROLE " + r + " WITH REPLICATION;\n")
	}
	schemas := []string{""}
	if cfg.Schema != "" {
		schemas = append(schemas, cfg.Schema)
		b.WriteString("GRANT USAGE ON SCHEMA " + quoteIdent(cfg.Schema) + " TO " + r + ";\n")
	}
	for _, g := range n.grants() {
		b.WriteString("GRANT " + strings.Join(g.privileges, ", ") + " ON " + g.table + " TO " + r + ";\n")
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if !slices.Contains(schemas, t.Schema) {
			schemas = append(schemas, t.Schema)
			b.WriteString("GRANT USAGE ON SCHEMA " + quoteIdent(t.Schema) + " TO " + r + ";\n")
		}
		b.WriteString("GRANT " + strings.Join(tablePrivileges(t), ", ") + " ON " + quoteTable(t) + " TO " + r + ";\n")
		b.WriteString(feedbackNote(t))
		if cfg.Poll && ownShape(t.Shape) {
			seq := *t
			seq.Name += "_" + t.Columns.Seq + "_seq" // the server's own name for it
			b.WriteString("GRANT SELECT ON SEQUENCE " + quoteTable(&seq) + " TO " + r + ";\n")
		}
	}
	return b.String()
}
