package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
)

// setupLockTimeout bounds the wait for locks of DDL: behind a long transaction, DDL holds up everybody else as well.
const setupLockTimeout = "SET LOCAL lock_timeout = '5s'"

// Init creates what is missing of the relay's tables, the outbox tables whose shape is ours, and the publication, in one
// transaction, and returns what it created. What is there is left alone, so a role without the right to create can run it
// after a migration did. It makes no slot and no checkpoint, but where the pipeline has no checkpoint yet, it looks first
// whether they can be made, and tells all that is missing before it creates anything.
func Init(ctx context.Context, cfg Config) (created []string, err error) {
	conn, err := cfg.connect(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeConn(ctx, conn)) }()
	if err := prerequisites(ctx, cfg, conn); err != nil {
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
	s := &setup{cfg: cfg, tx: tx}
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
	return s.created, nil
}

type setup struct {
	cfg     Config
	tx      pgx.Tx
	created []string
}

// run executes DDL, and says in its error what it was for.
func (s *setup) run(ctx context.Context, what, sql string) error {
	if _, err := s.tx.Exec(ctx, setupLockTimeout+"; "+sql); err != nil {
		return fmt.Errorf("create %s: %w%s", what, err, ddlCure(err))
	}
	s.created = append(s.created, what)
	return nil
}

// ddlCure is what can be done about a refusal.
func ddlCure(err error) string {
	switch sqlState(err) {
	case "42501":
		return ": run the SQL of `tailbox init --print` as the owner, then tailbox init"
	case lockNotAvailable:
		return ": another transaction holds the table: try again when it has ended"
	}
	return ""
}

// missing tells whether a relation does not exist.
func (s *setup) missing(ctx context.Context, name string) (bool, error) {
	var missing bool
	if err := s.tx.QueryRow(ctx, "SELECT to_regclass($1) IS NULL", name).Scan(&missing); err != nil {
		return false, fmt.Errorf("look for table %s: %w", name, err)
	}
	return missing, nil
}

// own makes the relay's tables.
func (s *setup) own(ctx context.Context) error {
	if s.cfg.Schema != "" {
		var missing bool
		if err := s.tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NULL", quoteIdent(s.cfg.Schema)).Scan(&missing); err != nil {
			return fmt.Errorf("look for schema %s: %w", s.cfg.Schema, err)
		}
		if missing {
			if err := s.run(ctx, "schema "+s.cfg.Schema, "CREATE SCHEMA "+quoteIdent(s.cfg.Schema)); err != nil {
				return err
			}
		}
	}
	n := tableNames(s.cfg.Schema)
	for _, name := range []string{n.checkpoint, n.parked, n.request} {
		missing, err := s.missing(ctx, name)
		if err != nil {
			return err
		}
		if missing {
			return s.run(ctx, "tables tailbox_*", n.expand(ownTables))
		}
	}
	return nil
}

// outboxes makes the tables that applications write to.
func (s *setup) outboxes(ctx context.Context) error {
	for i := range s.cfg.Tables {
		t := &s.cfg.Tables[i]
		missing, err := s.missing(ctx, quoteTable(t))
		if err != nil {
			return err
		}
		if !missing {
			continue
		}
		sql, err := outboxSQL(t)
		if err != nil {
			return err
		}
		if sql == "" {
			return fmt.Errorf("create table %s: its shape %q belongs to its application: let that make it, or correct source.tables: %w",
				quoteTable(t), t.Shape, source.ErrStop)
		}
		if s.cfg.Poll {
			sql += seqIndexSQL(t)
		}
		if err := s.run(ctx, "table "+quoteTable(t), sql); err != nil {
			return err
		}
	}
	return nil
}

// publication makes the publication, or adds what it lacks.
func (s *setup) publication(ctx context.Context) error {
	var have bool
	if err := s.tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)", s.cfg.Publication).Scan(&have); err != nil {
		return fmt.Errorf("look for publication %s: %w", s.cfg.Publication, err)
	}
	if !have {
		return s.run(ctx, "publication "+s.cfg.Publication, publicationSQL(s.cfg))
	}
	for i := range s.cfg.Tables {
		name := quoteTable(&s.cfg.Tables[i])
		var published bool
		err := s.tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_publication_tables p JOIN pg_class c ON c.relname = p.tablename
			JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = p.schemaname
			WHERE p.pubname = $1 AND c.oid = $2::text::regclass)`, s.cfg.Publication, name).Scan(&published)
		if err != nil {
			return fmt.Errorf("look for table %s in publication %s: %w", name, s.cfg.Publication, err)
		}
		if published {
			continue
		}
		if err := s.run(ctx, "table "+name+" of publication "+s.cfg.Publication,
			"ALTER PUBLICATION "+quoteIdent(s.cfg.Publication)+" ADD TABLE "+name); err != nil {
			return err
		}
	}
	return nil
}

// UninstallSQL is what Uninstall does, as a script. The tables go only where no other pipeline uses them; the script leaves
// that to who runs it.
func UninstallSQL(cfg Config) string {
	n := tableNames(cfg.Schema)
	var b strings.Builder
	if !cfg.Poll {
		fmt.Fprintf(&b, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s;\n", quoteLiteral(cfg.Slot))
		fmt.Fprintf(&b, "DROP PUBLICATION IF EXISTS %s;\n", quoteIdent(cfg.Publication))
	}
	for _, name := range []string{n.request, n.parked, n.checkpoint} {
		fmt.Fprintf(&b, "DELETE FROM %s WHERE pipeline = %s;\n", name, quoteLiteral(cfg.Pipeline))
	}
	fmt.Fprintf(&b, "-- if no other pipeline uses them:\nDROP TABLE IF EXISTS %s, %s, %s;\n", n.request, n.parked, n.checkpoint)
	return b.String()
}

// Uninstall drops the slot, the publication and, unless other pipelines use them, the tables tailbox_*. It returns what it
// dropped. It refuses while a relay runs, and, without force, while deliveries are parked: they would be lost. The
// outbox tables stay.
func Uninstall(ctx context.Context, cfg Config, force bool) (dropped []string, err error) {
	s, err := openReaderAt(ctx, cfg, cfg.directURL())
	if err != nil && !errors.Is(err, checkpoint.ErrNoTables) {
		return nil, err
	}
	if s == nil {
		// Without tables there is nothing parked and nobody runs; slot and publication may be there.
		conn, err := cfg.connect(ctx, cfg.directURL())
		if err != nil {
			return nil, err
		}
		s = &store{cfg: cfg, conn: conn}
	}
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	if err := s.ownSession(ctx); err != nil {
		return nil, fmt.Errorf("uninstall: %w", err)
	}
	var free bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey(cfg.Pipeline)).Scan(&free); err != nil {
		return nil, fmt.Errorf("take the pipeline's lock: %w", err)
	}
	if !free {
		return nil, fmt.Errorf("uninstall: %w: stop it first", checkpoint.ErrLocked)
	}
	// The server ends a session only some time after its client has left.
	defer func() {
		_, uerr := s.conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_all()")
		err = errors.Join(err, uerr)
	}()
	if s.schema != "" && !force {
		var parked int
		if err := s.conn.QueryRow(ctx, s.q(`SELECT count(*) FROM {parked} WHERE pipeline = $1 AND state IN ('retrying', 'waiting', 'dead')`),
			cfg.Pipeline).Scan(&parked); err != nil {
			return nil, fmt.Errorf("count parked deliveries: %w", err)
		}
		if parked > 0 {
			return nil, fmt.Errorf("uninstall: what is parked would be lost (deliveries: %d): let it end, drop it (tailbox dead drop), or use --force", parked)
		}
	}
	return s.uninstall(ctx)
}

func (s *store) uninstall(ctx context.Context) (dropped []string, err error) {
	ours, published, err := s.owned(ctx)
	if err != nil {
		return nil, err
	}
	if ours {
		slot, err := s.cfg.inactiveSlot(ctx, s.conn.PgConn())
		if err != nil {
			return nil, err
		}
		ours = slot != nil
	}
	if ours {
		if _, err := s.conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", s.cfg.Slot); err != nil {
			return nil, fmt.Errorf("drop slot %s: %w", s.cfg.Slot, err)
		}
		dropped = append(dropped, "slot "+s.cfg.Slot)
	}
	err = s.inTx(ctx, func() error {
		if published {
			if _, err := s.conn.Exec(ctx, "DROP PUBLICATION "+quoteIdent(s.cfg.Publication)); err != nil {
				return err
			}
			dropped = append(dropped, "publication "+s.cfg.Publication)
		}
		if s.schema == "" {
			return nil
		}
		var others bool
		if err := s.conn.QueryRow(ctx, s.q("SELECT EXISTS (SELECT FROM {checkpoint} WHERE pipeline <> $1) OR EXISTS (SELECT FROM {parked} WHERE pipeline <> $1)"),
			s.cfg.Pipeline).Scan(&others); err != nil {
			return err
		}
		if !others {
			dropped = append(dropped, "tables tailbox_*")
			_, err := s.conn.Exec(ctx, s.q("DROP TABLE {request}, {parked}, {checkpoint}"))
			return err
		}
		for _, table := range []string{"{request}", "{parked}", "{checkpoint}"} {
			if _, err := s.conn.Exec(ctx, s.q("DELETE FROM "+table+" WHERE pipeline = $1"), s.cfg.Pipeline); err != nil {
				return err
			}
		}
		dropped = append(dropped, "rows of pipeline "+s.cfg.Pipeline+" in tailbox_*, which other pipelines use")
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("uninstall: %w%s", err, ddlCure(err))
	}
	return dropped, nil
}

// owned tells whether slot and publication are there for this pipeline alone: what another one uses, or another database
// has, is not dropped.
func (s *store) owned(ctx context.Context) (slot, publication bool, err error) {
	if err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database()),
		EXISTS (SELECT FROM pg_publication WHERE pubname = $2)`, s.cfg.Slot, s.cfg.Publication).Scan(&slot, &publication); err != nil {
		return false, false, fmt.Errorf("look for slot and publication: %w", err)
	}
	if s.schema == "" {
		return slot, publication, nil
	}
	var slotElsewhere, publicationElsewhere bool
	if err := s.conn.QueryRow(ctx, s.q(`SELECT coalesce(bool_or(slot = $2), false), coalesce(bool_or(publication = $3), false)
		FROM {checkpoint} WHERE pipeline <> $1`), s.cfg.Pipeline, s.cfg.Slot, s.cfg.Publication).Scan(&slotElsewhere, &publicationElsewhere); err != nil {
		return false, false, s.fault("look who uses slot and publication", err)
	}
	return slot && !slotElsewhere, publication && !publicationElsewhere, nil
}
