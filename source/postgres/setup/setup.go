// Package setup prepares a database for a pipeline, and undoes that: init and its script, check, and uninstall.
package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/migration"
)

// setupLockTimeout bounds the wait for locks of DDL: behind a long transaction, DDL holds up everybody else as well.
const setupLockTimeout = "SET LOCAL lock_timeout = '5s'"

// Init creates what is missing: the relay's tables, outbox tables of our shapes, and the publication. It brings the relay's tables up to date, all
// in one transaction, and returns what it did ("created …", "added …", "updated …"). It leaves alone what is there, so a role that may not create
// can run it after a migration. It makes no slot and no checkpoint. If the pipeline has no checkpoint, it first checks whether a slot and a
// checkpoint can be made, and reports all that is missing before it creates anything.
func Init(ctx context.Context, cfg session.Config) (done []string, err error) {
	conn, err := cfg.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx, conn)) }()
	if err := cfg.OnePlace(ctx, conn); err != nil {
		return nil, err
	}
	if err := prerequisites(ctx, cfg, conn); err != nil {
		return nil, err
	}
	if err := refuseNames(ctx, &cfg, conn); err != nil {
		return nil, err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("create what is missing: %w", err)
	}
	defer func() {
		if rerr := tx.Rollback(context.WithoutCancel(ctx)); rerr != nil && !errors.Is(rerr, pgx.ErrTxClosed) {
			err = errors.Join(err, rerr)
		}
	}()
	path := session.PathOf(conn.PgConn())
	placed, err := path.In(cfg)
	if err != nil {
		return nil, fmt.Errorf("create what is missing: %w", err)
	}
	s := &setup{cfg: cfg, placed: placed, path: path, tx: tx}
	steps := []func(context.Context) error{s.own, s.outboxes, s.publication}
	if cfg.Poll {
		steps = steps[:2]
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return nil, fmt.Errorf("create what is missing: %w", err)
	}
	return s.done, nil
}

// refuseNames refuses to create outbox tables that look as if they were there under another name.
func refuseNames(ctx context.Context, c *session.Config, conn *pgx.Conn) error {
	if c.CreateTables {
		return nil
	}
	return prepare.RefuseNames(c.Tables, func(t *outbox.Table) (bool, []string, error) {
		beside, err := tablesBeside(ctx, conn, t)
		return !slices.Contains(beside, t.Name) && ddl.OwnShape(t.Shape), beside, err
	})
}

// tablesBeside are the names of the tables and views where a table is looked for.
func tablesBeside(ctx context.Context, conn *pgx.Conn, t *outbox.Table) ([]string, error) {
	schemas := session.PathOf(conn.PgConn()).Schemas
	if t.Schema != "" {
		schemas = []string{t.Schema}
	}
	rows, err := conn.Query(ctx, `SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = ANY ($1)`, schemas)
	if err == nil {
		var names []string
		if names, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return names, nil
		}
	}
	return nil, fmt.Errorf("look for tables like %s: %w", t, err)
}

type setup struct {
	cfg session.Config
	// placed is cfg with the schemas in which things are created.
	placed session.Config
	path   session.Path
	tx     pgx.Tx
	done   []string
}

// run creates something.
func (s *setup) run(ctx context.Context, what, sql string) error {
	if err := s.do(ctx, "create "+what, sql); err != nil {
		return err
	}
	s.done = append(s.done, "created "+what)
	return nil
}

// do executes DDL, and says in its error what it was for.
func (s *setup) do(ctx context.Context, what, sql string) error {
	if _, err := s.tx.Exec(ctx, setupLockTimeout+"; "+sql); err != nil {
		return fmt.Errorf("%s: %w%s", what, err, ddlFix(err))
	}
	return nil
}

// ddlFix is what can be done about a refusal.
func ddlFix(err error) string {
	switch pgerr.State(err) {
	case "42501":
		return ": run the SQL of `tailbox init --print` as the owner, then tailbox init"
	case pgerr.LockNotAvailable, "40P01": // or a deadlock with a relay that runs
		return ": another transaction holds the table: try again when it has ended"
	}
	return ""
}

// missing reports whether a table does not exist.
func (s *setup) missing(ctx context.Context, t *outbox.Table) (bool, error) {
	var missing bool
	if err := s.tx.QueryRow(ctx, "SELECT "+s.path.Find(t)+" IS NULL").Scan(&missing); err != nil {
		return false, fmt.Errorf("look for table %s: %w", sqltext.Table(t), err)
	}
	return missing, nil
}

// own makes the relay's tables.
func (s *setup) own(ctx context.Context) error {
	if s.cfg.Schema != "" {
		var missing bool
		if err := s.tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NULL", sqltext.Ident(s.cfg.Schema)).Scan(&missing); err != nil {
			return fmt.Errorf("look for schema %s: %w", s.cfg.Schema, err)
		}
		if missing {
			if err := s.run(ctx, "schema "+s.cfg.Schema, "CREATE SCHEMA "+sqltext.Ident(s.cfg.Schema)); err != nil {
				return err
			}
		}
	}
	return s.migrate(ctx, migrate.TablesIn(s.placed.Schema))
}

// migrate runs the migrations that are missing. One init at a time does: another one waits, and finds them done.
func (s *setup) migrate(ctx context.Context, n migrate.Tables) error {
	if err := s.do(ctx, "lock the tables tailbox_* against another init", "SELECT pg_advisory_xact_lock("+strconv.FormatInt(pgstore.LockKey(""), 10)+")"); err != nil {
		return err
	}
	for _, name := range []string{"tailbox_checkpoint", "tailbox_parked", "tailbox_request"} {
		missing, err := s.missing(ctx, &outbox.Table{Schema: s.placed.Schema, Name: name})
		if err != nil {
			return err
		}
		if missing {
			return s.run(ctx, "tables tailbox_*", n.Script())
		}
	}
	number, err := n.Last(ctx, s.tx.Conn())
	if err != nil {
		return err
	}
	missing := migration.State{Migration: number}.Pending(migrate.All())
	if len(missing) == 0 {
		return nil
	}
	if err := s.do(ctx, "update tables tailbox_*", n.ScriptOf(missing)); err != nil {
		return err
	}
	s.done = append(s.done, "updated tables tailbox_*: "+migration.Names(missing))
	return nil
}

// outboxes makes the tables that applications write to.
func (s *setup) outboxes(ctx context.Context) error {
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		missing, err := s.missing(ctx, t)
		if err != nil {
			return err
		}
		if !missing {
			continue
		}
		sql, err := ddl.Outbox(&s.placed.Tables[i])
		if err != nil {
			return err
		}
		if sql == "" {
			return prepare.ForeignShape("table "+sqltext.Table(t), t.Shape)
		}
		if s.cfg.Poll {
			sql += ddl.SeqIndex(&s.placed.Tables[i])
		}
		if err := s.run(ctx, "table "+sqltext.Table(t), sql); err != nil {
			return err
		}
	}
	return nil
}

// publication makes the publication, or adds what it lacks.
func (s *setup) publication(ctx context.Context) error {
	conn := s.tx.Conn().PgConn()
	viaRoot, have := true, true
	err := s.tx.QueryRow(ctx, "SELECT pubviaroot FROM pg_publication WHERE pubname = $1", s.cfg.Publication).Scan(&viaRoot)
	if have = !errors.Is(err, pgx.ErrNoRows); have && err != nil {
		return fmt.Errorf("look for publication %s: %w", s.cfg.Publication, err)
	}
	published, err := catalog.ReadPublished(ctx, &s.cfg, conn)
	if err != nil {
		return err
	}
	var lacks []string
	for i := range s.cfg.Tables {
		t, err := catalog.Describe(ctx, conn, &s.cfg.Tables[i])
		if err == nil {
			err = catalog.Publishable(&s.cfg, t, viaRoot)
		}
		if err != nil {
			return err
		}
		s.placed.Tables[i].Schema = t.Schema
		if name := sqltext.Table(&t.Table); published.Holds(name) {
			lacks = append(lacks, t.Unpublished(published)...)
		} else {
			lacks = append(lacks, name) // with its children
		}
	}
	if !have {
		return s.run(ctx, "publication "+s.cfg.Publication, ddl.Publication(s.placed))
	}
	for _, name := range lacks {
		to := "table " + name + " to publication " + s.cfg.Publication
		if err := s.do(ctx, "add "+to, "ALTER PUBLICATION "+sqltext.Ident(s.cfg.Publication)+" ADD TABLE "+name); err != nil {
			return err
		}
		s.done = append(s.done, "added "+to)
	}
	return nil
}
