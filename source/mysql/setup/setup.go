// Package setup prepares a database for a pipeline and takes it away again: init, the checks before it, grants, uninstall, and the messages that
// show whether it works (example, send).
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/migration"
)

// Init creates what is missing of the relay's tables and of the outbox tables whose shape is ours, brings the
// relay's tables up to date, and returns what it did ("created …", "updated …"). What is there is left alone, so an account without the right to create can run it after a migration did. It
// makes no checkpoint, but where something would keep the log from being read, it tells all of that before it creates
// anything. DDL is no part of transactions here: what was created before an error stays, and the next Init goes on.
func Init(ctx context.Context, cfg server.Config) (done []string, err error) {
	s, err := cfg.Connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if err := prerequisites(ctx, cfg, s); err != nil {
		return nil, err
	}
	if err := refuseNames(ctx, &cfg, s); err != nil {
		return nil, err
	}
	if _, err := s.Exec(ctx, "SET lock_wait_timeout = 5, innodb_lock_wait_timeout = 5"); err != nil {
		return nil, fmt.Errorf("create what is missing: %w", err)
	}
	if done, err = schema.Migrate(ctx, &cfg, s); err != nil {
		return done, err
	}
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		missing, err := schema.Missing(ctx, s, t.Schema, t.Name)
		if err != nil {
			return done, err
		}
		if !missing {
			continue
		}
		sql, err := schema.OutboxSQL(t)
		if err != nil {
			return done, err
		}
		if sql == "" {
			return done, prepare.ForeignShape("table "+quote.Table(t), t.Shape)
		}
		if _, err := s.Exec(ctx, sql); err != nil {
			return done, fmt.Errorf("create table %s: %w%s", quote.Table(t), err, schema.Fix(err))
		}
		done = append(done, "created table "+quote.Table(t))
	}
	return done, nil
}

// refuseNames refuses to create outbox tables that look as if they were there under another name.
func refuseNames(ctx context.Context, c *server.Config, s *server.Conn) error {
	if c.CreateTables {
		return nil
	}
	return prepare.RefuseNames(c.Tables, func(t *outbox.Table) (bool, []string, error) {
		missing, err := schema.Missing(ctx, s, t.Schema, t.Name)
		if err != nil || !missing || !schema.OwnShape(t.Shape) {
			return false, nil, err
		}
		beside, err := tablesBeside(ctx, s, t)
		return true, beside, err
	})
}

// tablesBeside are the names of the tables and views in the table's database.
func tablesBeside(ctx context.Context, s *server.Conn, t *outbox.Table) (names []string, err error) {
	rows, err := s.Texts(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = "+schema.InSchema(t.Schema))
	if err != nil {
		return nil, fmt.Errorf("look for tables like %s: %w", t, err)
	}
	for _, r := range rows {
		names = append(names, r[0])
	}
	return names, nil
}

// Script is what Init creates, as one script for a migration tool: the relay's tables, and the outbox tables whose shape is
// ours. It can be run again.
func Script(cfg server.Config) (string, error) {
	var b strings.Builder
	database := "DATABASE"
	if a, err := server.ParseURL(cfg.URL); err == nil && a.Database != "" {
		database = a.Database
	}
	b.WriteString(migration.GrantsComment("--", RoleSQL(cfg, "'tailbox'@'%'", database), ClientSQL(cfg, "'support'@'%'", database)))
	b.WriteString(schema.Script(cfg.Schema))
	for i := range cfg.Tables {
		sql, err := schema.OutboxSQL(&cfg.Tables[i])
		if err != nil {
			return "", err
		}
		if sql != "" {
			b.WriteString(sql + ";\n\n")
		}
	}
	if cfg.Poll {
		b.WriteString("-- source.read is poll: the account needs PROCESS, and no right to read the binlog.\n")
	}
	return strings.TrimSpace(b.String()) + "\n", nil
}

// tablePrivileges are what the relay does with the user's table.
func tablePrivileges(t *outbox.Table) []string {
	if !t.ShowsParked() {
		return prepare.Privileges(t)
	}
	return prepare.Privileges(t, "UPDATE")
}

// A grant is privileges on one of the relay's own tables.
type grant struct {
	table      string
	privileges []string
}

// ownGrants are what the relay does with its own tables. What it knows, and what was asked for, only the owner removes.
func ownGrants() []grant {
	return []grant{
		{"tailbox_checkpoint", []string{"SELECT", "INSERT", "UPDATE"}}, {"tailbox_parked", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{"tailbox_request", []string{"SELECT", "INSERT", "UPDATE"}},
	}
}

// binlogPrivileges are what reading the binlog takes.
func binlogPrivileges(mariadb bool) []string {
	if mariadb {
		return []string{"REPLICATION SLAVE", "BINLOG MONITOR"}
	}
	return []string{"REPLICATION SLAVE", "REPLICATION CLIENT"}
}

// RoleSQL is what an account needs that does nothing but run the relay. The account, such as 'tailbox'@'10.0.0.%', exists
// already. Schema is the database for tables that are configured without one.
func RoleSQL(cfg server.Config, account, schema string) string {
	var b strings.Builder
	global := binlogPrivileges(cfg.Kind == server.KindMariaDB)
	if cfg.Poll {
		global = []string{"PROCESS"}
	}
	fmt.Fprintf(&b, "GRANT %s ON *.* TO %s;\n", strings.Join(global, ", "), account)
	own := cfg.Schema
	if own == "" {
		own = schema
	}
	for _, g := range ownGrants() {
		fmt.Fprintf(&b, "GRANT %s ON %s.%s TO %s;\n", strings.Join(g.privileges, ", "), quote.Ident(own), g.table, account)
	}
	for i := range cfg.Tables {
		t := cfg.Tables[i]
		if t.Schema == "" {
			t.Schema = schema
		}
		b.WriteString(prepare.FeedbackNote(&t))
		fmt.Fprintf(&b, "GRANT %s ON %s TO %s;\n", strings.Join(tablePrivileges(&t), ", "), quote.Table(&t), account)
	}
	return b.String()
}

// ClientSQL is what an account needs to ask for verbs in plain SQL, and no more: who asked, when, and what came of it, is not its to write.
func ClientSQL(cfg server.Config, account, schema string) string {
	return fmt.Sprintf("GRANT INSERT (pipeline, verb, selection, reason) ON %s.tailbox_request TO %s;\n",
		quote.Ident(cmp.Or(cfg.Schema, schema)), account)
}

// UninstallScript is what Uninstall does, as a script. The tables go only where no other pipeline uses them; the script leaves
// that to who runs it.
func UninstallScript(cfg server.Config) string {
	n := schema.NamesIn(cfg.Schema)
	var b strings.Builder
	for _, name := range []string{n.Request, n.Parked, n.Checkpoint} {
		fmt.Fprintf(&b, "DELETE FROM %s WHERE pipeline = %s;\n", name, quote.Text(cfg.Pipeline))
	}
	fmt.Fprintf(&b, "-- if no other pipeline uses them:\nDROP TABLE IF EXISTS %s, %s, %s;\n", n.Request, n.Parked, n.Checkpoint)
	return b.String()
}

// Uninstall drops the tables tailbox_* or, where other pipelines use them, this one's rows, and returns what it dropped. It
// refuses while a relay runs, and, without force, while deliveries are parked: they would be lost. The outbox tables stay.
func Uninstall(ctx context.Context, cfg server.Config, force bool) (dropped, left []string, err error) {
	s, err := session.Dial(ctx, cfg, cfg.URL)
	if errors.Is(err, checkpoint.ErrNoTables) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Release(ctx)) }()
	var locked, parked, others int64
	count := func(to *int64) func(session.Row) error {
		return func(r session.Row) error {
			*to = r.Num(0)
			return nil
		}
	}
	b := s.Batch()
	b.Each(count(&locked), "SELECT GET_LOCK(?, 0)", s.Lock)
	b.Each(count(&parked), "SELECT COUNT(*) FROM {parked} WHERE pipeline = ? AND state IN ('retrying', 'waiting', 'dead')", cfg.Pipeline)
	b.Each(count(&others), "SELECT EXISTS (SELECT 1 FROM {checkpoint} WHERE pipeline <> ?) OR EXISTS (SELECT 1 FROM {parked} WHERE pipeline <> ?)",
		cfg.Pipeline, cfg.Pipeline)
	if err := s.Send(ctx, b); err != nil {
		return nil, nil, server.Fault("uninstall", err)
	}
	switch {
	case locked != 1:
		return nil, nil, fmt.Errorf("uninstall: %w: stop it first", checkpoint.ErrLocked)
	case parked > 0 && !force:
		return nil, nil, fmt.Errorf("uninstall: what is parked would be lost (deliveries: %d): let it end, drop it (tailbox dead drop), or use --force", parked)
	}
	b = s.Batch()
	if others == 0 {
		dropped = []string{"tables tailbox_*"}
		b.Exec("DROP TABLE {request}, {parked}, {checkpoint}")
	} else {
		dropped = []string{"rows of pipeline " + cfg.Pipeline + " in tailbox_*, which other pipelines use"}
		for _, table := range []string{"{request}", "{parked}", "{checkpoint}"} {
			b.Exec("DELETE FROM "+table+" WHERE pipeline = ?", cfg.Pipeline)
		}
	}
	if err := s.Send(ctx, b); err != nil {
		fix := ""
		if server.Code(err) == 1142 {
			fix = ": run tailbox uninstall, or the SQL of `tailbox uninstall --print`, as the owner of the tables"
		}
		return nil, nil, fmt.Errorf("uninstall: %w%s", err, fix)
	}
	return dropped, nil, nil
}
