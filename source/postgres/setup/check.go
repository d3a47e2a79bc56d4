package setup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/migration"
)

// A checker asks the questions of `tailbox check`, and collects the findings.
type checker struct {
	prepare.Checker
	cfg      session.Config
	conn     *pgx.Conn
	version  int
	recovery bool // it is a standby
	role     string
	// tables are those that exist; state is the relay's tables, nil if they are missing.
	tables []*catalog.Table
	state  *pgstore.Store
	// blind: the relay's tables exist, but the role may not read them.
	blind bool
	// position is what hasCheckpoint found, once it has looked.
	position *bool
}

// Check looks at everything that the relay needs of the database, and returns all that it finds. It changes nothing. An error
// means that it could not go on looking; what was found before is returned with it.
func Check(ctx context.Context, cfg session.Config) (findings []check.Finding, err error) {
	c := &checker{cfg: cfg}
	c.transport()
	if c.conn, err = cfg.Connect(ctx); err != nil {
		fix := "correct source.url, start the server, or let it in by pg_hba.conf"
		switch {
		case errors.Is(err, source.ErrStop):
			fix = "set source.lock_url to a direct connection; source.url needs a pooler that lets replication through (PgBouncer from 1.23 on), or none"
		case cfg.LockURL != "":
			fix = "correct source.lock_url, start the server, or let it in by pg_hba.conf"
		}
		c.Add(check.Problem, fix, "%v", err)
		return c.Findings, nil
	}
	defer func() { err = errors.Join(err, session.Close(ctx, c.conn)) }()
	// Do not wait for a lock that another transaction holds.
	if _, err := c.conn.Exec(ctx, "SET lock_timeout = '2s'; SET statement_timeout = '30s'"); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	err = prepare.Ask(ctx, c.questions())
	return c.Findings, err
}

func (c *checker) questions() []prepare.Question {
	at := prepare.At
	if c.cfg.Poll {
		return []prepare.Question{at("server", c.server), at("lock", c.lock), at("tables tailbox_*", c.ownTables), at("outbox tables", c.outboxTables),
			at("sequence", c.polled), at("slot", c.forgottenSlot), at("first start", c.firstStart)}
	}
	return []prepare.Question{at("server", c.server), at("settings", c.settings), at("role", c.roleRights), at("lock", c.lock), at("tables tailbox_*", c.ownTables),
		at("outbox tables", c.outboxTables), at("publication", c.publication), at("messages", c.emitters), at("slot", c.slot),
		at("failover", c.failover), at("commit times", c.commitTimes), at("first start", c.firstStart)}
}

// setting is the value of a setting in its base unit; "" where this version does not have it.
func (c *checker) setting(ctx context.Context, name string) (string, error) {
	var value string
	err := c.conn.QueryRow(ctx, "SELECT setting FROM pg_settings WHERE name = $1", name).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// server looks at its version, and whether it is the primary.
func (c *checker) server(ctx context.Context) error {
	var version string
	err := c.conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(), current_user").
		Scan(&c.version, &version, &c.recovery, &c.role)
	if err != nil {
		return err
	}
	switch {
	case c.version < 140000:
		c.Add(check.Problem, "upgrade to Postgres 15 or later", "the server is Postgres %s: 14 is the oldest that can be used", version)
	case c.version < 150000:
		c.Add(check.Warning, "upgrade to Postgres 15 or later", "the server is Postgres %s: it sends an empty transaction for every commit in the database", version)
	}
	if c.recovery {
		c.Add(check.Problem, "let source.url lead to the primary, such as with target_session_attrs=read-write and all hosts", "the server is a standby, which writes nothing")
	}
	return nil
}

// settings looks at what logical decoding needs.
func (c *checker) settings(ctx context.Context) error {
	level, err := c.setting(ctx, "effective_wal_level")
	if err == nil && level == "" {
		level, err = c.setting(ctx, "wal_level")
	}
	if err != nil {
		return err
	}
	if level != "logical" {
		fix := "ALTER SYSTEM SET wal_level = 'logical', then restart the server"
		for name, recipe := range map[string]string{
			"rds.logical_replication":   "set rds.logical_replication = 1 in the parameter group, then reboot the instance",
			"cloudsql.logical_decoding": "set the flag cloudsql.logical_decoding = on, which restarts the instance",
			"azure.extensions":          "set the server parameter wal_level to logical, then restart the server",
		} {
			if value, err := c.setting(ctx, name); err == nil && value != "" {
				fix = recipe
			}
		}
		c.Add(check.Problem, fix, "wal_level is %s: the log does not hold what is needed to read it", level)
	}
	if err := c.free(ctx, "max_replication_slots", "SELECT count(*) FROM pg_replication_slots WHERE slot_name <> $1"); err != nil {
		return err
	}
	if err := c.free(ctx, "max_wal_senders", `SELECT count(*) FROM pg_stat_replication
		WHERE pid NOT IN (SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL)`); err != nil {
		return err
	}
	if value, err := c.setting(ctx, "max_slot_wal_keep_size"); err != nil {
		return err
	} else if value == "-1" {
		c.Add(check.Info, "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'", "max_slot_wal_keep_size is unlimited: while no relay runs, the server keeps all log, "+
			"until its disk is full. With a limit, a slot can be lost. tailbox then sweeps the tables for pending rows, if it deletes rows or they have a status")
	}
	if value, err := c.setting(ctx, "idle_replication_slot_timeout"); err != nil {
		return err
	} else if value != "" && value != "0" {
		c.Add(check.Warning, "ALTER SYSTEM SET idle_replication_slot_timeout = 0", "idle_replication_slot_timeout is %s s: a slot is lost when no relay runs for that long", value)
	}
	if value, err := c.setting(ctx, "synchronous_commit"); err != nil {
		return err
	} else if value == "off" {
		c.Add(check.Info, "SET synchronous_commit = on for transactions that write messages, or ALTER SYSTEM SET wal_writer_delay = '10ms'",
			"synchronous_commit is off: messages reach the log up to %s late. The relay's own commits are always durable", "600 ms")
	}
	return nil
}

// free checks whether one more of something (a slot, a WAL sender) fits.
func (c *checker) free(ctx context.Context, setting, used string) error {
	value, err := c.setting(ctx, setting)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("setting %s: %w", setting, err)
	}
	var n int
	if err := c.conn.QueryRow(ctx, used, c.cfg.Slot).Scan(&n); err != nil {
		return err
	}
	if n >= limit {
		c.Add(check.Problem, fmt.Sprintf("ALTER SYSTEM SET %s = %d, then restart the server, or drop a slot that nobody needs", setting, limit+5),
			"%s is %d, and others use %d", setting, limit, n)
	}
	return nil
}

// roleRights checks whether the role may read the log.
func (c *checker) roleRights(ctx context.Context) error {
	var allowed, rds bool
	err := c.conn.QueryRow(ctx, `SELECT rolreplication OR rolsuper OR EXISTS (SELECT FROM pg_roles m WHERE m.rolname = 'rds_replication'
		AND pg_has_role(r.oid, m.oid, 'member')), EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication')
		FROM pg_roles r WHERE rolname = current_user`).Scan(&allowed, &rds)
	if err != nil {
		return err
	}
	if !allowed {
		fix := "ALTER ROLE " + sqltext.Ident(c.role) + " WITH REPLICATION"
		if rds {
			fix = "GRANT rds_replication TO " + sqltext.Ident(c.role)
		}
		c.Add(check.Problem, fix, "role %s may not read the log", c.role)
		return nil
	}
	rep, err := c.cfg.ConnectReplication(ctx)
	if err != nil {
		c.Add(check.Problem, "connect past the pooler (PgBouncer lets replication through from 1.23 on), or allow the role the database in pg_hba.conf "+
			"(logical replication needs an ordinary database line)", "%v", err)
		return nil
	}
	return session.ClosePgConn(ctx, rep)
}

// lock checks whether both addresses lead to the same database.
func (c *checker) lock(ctx context.Context) error {
	if c.cfg.LockURL == "" {
		return nil
	}
	other, err := c.cfg.Dial(ctx, c.cfg.URL)
	if err != nil {
		c.Add(check.Problem, "correct source.url", "%v", err)
		return nil
	}
	defer func() { _ = session.Close(ctx, other) }() // it only asked
	what, err := session.Elsewhere(ctx, other, c.conn)
	if err == nil && what != "" {
		c.Add(check.Problem, session.ElsewhereFix, "%s", what)
	}
	return err
}

// ownTables looks at the relay's tables.
func (c *checker) ownTables(ctx context.Context) (err error) {
	s := pgstore.On(c.cfg, c.conn)
	if err := s.FindTables(ctx); err != nil {
		if c.hidden(s.Schema, err) {
			c.blind = true
			return nil
		}
		if pgerr.State(err) != "" {
			return err
		}
		c.Add(check.Problem, "run tailbox init", "the tables tailbox_* are missing in schema %q", s.Schema)
		return nil
	}
	c.state = s
	var state migration.State
	if state.Migration, err = s.Names.Last(ctx, c.conn); err != nil {
		return err
	}
	lacks := 0
	for _, g := range s.Names.Grants() {
		n, err := c.privileges(ctx, g.Table, nil, g.Privileges...)
		if err != nil {
			return err
		}
		lacks += n
	}
	if lacks > 0 {
		c.state, c.blind = nil, true
	} else if state, err = s.Names.State(ctx, c.conn); err != nil {
		return err
	}
	c.Note(state.Finding(migrate.All()))
	return nil
}

// hidden reports whether an error says that the role may not use a schema. If so, it adds a problem.
func (c *checker) hidden(schema string, err error) bool {
	if pgerr.State(err) != "42501" {
		return false
	}
	c.Add(check.Problem, "GRANT USAGE ON SCHEMA "+sqltext.Ident(schema)+" TO "+sqltext.Ident(c.role), "role %s has no USAGE on schema %s", c.role, schema)
	return true
}

// privileges looks for rights on a table, and returns how many are missing. DELETE must be granted on the table, UPDATE on all of columns. For other
// rights, and for UPDATE if columns is empty, any one column is enough.
func (c *checker) privileges(ctx context.Context, table string, columns []string, wanted ...string) (lacks int, err error) {
	for _, p := range wanted {
		var have bool
		verb, _, _ := strings.Cut(p, " ")
		switch {
		case verb == "UPDATE" && len(columns) > 0:
			err = c.conn.QueryRow(ctx, "SELECT bool_and(has_column_privilege($1, name, $2)) FROM unnest($3::text[]) AS name", table, verb, columns).Scan(&have)
		case verb == "DELETE":
			err = c.conn.QueryRow(ctx, "SELECT has_table_privilege($1, $2)", table, verb).Scan(&have)
		default:
			err = c.conn.QueryRow(ctx, "SELECT has_any_column_privilege($1, $2)", table, verb).Scan(&have)
		}
		if err != nil {
			return lacks, err
		}
		if !have {
			lacks++
			c.Add(check.Problem, "GRANT "+p+" ON "+table+" TO "+sqltext.Ident(c.role), "role %s has no %s on %s", c.role, p, table)
		}
	}
	return lacks, nil
}
