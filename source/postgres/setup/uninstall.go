package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/postgres/ddl"
	"github.com/tailbox/tailbox/source/postgres/migrate"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// UninstallScript is what Uninstall does, as a script. The tables may go only if no other pipeline uses them; whoever runs the script has to check
// that.
func UninstallScript(cfg session.Config) string {
	n := migrate.TablesIn(cfg.Schema)
	var b strings.Builder
	if !cfg.Poll {
		fmt.Fprintf(&b, `-- what this pipeline has made:
SELECT pg_catalog.pg_drop_replication_slot(s.slot_name) FROM pg_catalog.pg_replication_slots s
	WHERE s.slot_name OPERATOR(pg_catalog.=) %[1]s AND s.database OPERATOR(pg_catalog.=) pg_catalog.current_database()
	AND EXISTS (SELECT FROM %[2]s WHERE slot OPERATOR(pg_catalog.=) %[1]s AND pipeline OPERATOR(pg_catalog.=) %[3]s)
	AND NOT EXISTS (SELECT FROM %[2]s WHERE slot OPERATOR(pg_catalog.=) %[1]s AND pipeline OPERATOR(pg_catalog.<>) %[3]s);
DO $tailbox$
BEGIN
	IF EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname OPERATOR(pg_catalog.=) %[4]s
			AND pg_catalog.obj_description(oid, 'pg_publication') OPERATOR(pg_catalog.=) %[5]s)
		AND NOT EXISTS (SELECT FROM %[2]s WHERE publication OPERATOR(pg_catalog.=) %[4]s AND pipeline OPERATOR(pg_catalog.<>) %[3]s) THEN
		DROP PUBLICATION %[6]s;
	END IF;
END
$tailbox$;
`, sqltext.Literal(cfg.Slot), n.Checkpoint, sqltext.Literal(cfg.Pipeline), sqltext.Literal(cfg.Publication), sqltext.Literal(ddl.PublicationMark(cfg)), sqltext.Ident(cfg.Publication))
	}
	for _, name := range []string{n.Request, n.Parked, n.Checkpoint} {
		fmt.Fprintf(&b, "DELETE FROM %s WHERE pipeline OPERATOR(pg_catalog.=) %s;\n", name, sqltext.Literal(cfg.Pipeline))
	}
	fmt.Fprintf(&b, "-- if no other pipeline uses them:\nDROP TABLE IF EXISTS %s, %s, %s;\n", n.Request, n.Parked, n.Checkpoint)
	return b.String()
}

// Uninstall drops the slot and the publication, if the pipeline has made or taken them over, and, unless other pipelines use
// them, the tables tailbox_*. It returns what it dropped, and what it left because it may be somebody else's, with what to do
// about it. It refuses while a relay runs, and, without force, while deliveries are parked: they would be lost. The outbox
// tables stay.
func Uninstall(ctx context.Context, cfg session.Config, force bool) (dropped, left []string, err error) {
	s, err := pgstore.OpenAnyReader(ctx, cfg)
	if err != nil && !errors.Is(err, checkpoint.ErrNoTables) {
		return nil, nil, err
	}
	if s == nil {
		// Without tables there is nothing parked and nobody runs; slot and publication may be there.
		conn, err := cfg.Connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		s = pgstore.On(cfg, conn)
	}
	defer func() { err = errors.Join(err, session.Close(ctx, s.Conn)) }()
	if err := cfg.OnePlace(ctx, s.Conn); err != nil {
		return nil, nil, fmt.Errorf("uninstall: %w", err)
	}
	var free bool
	if err := s.Conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", pgstore.LockKey(cfg.Pipeline)).Scan(&free); err != nil {
		return nil, nil, fmt.Errorf("take the pipeline's lock: %w", err)
	}
	if !free {
		return nil, nil, fmt.Errorf("uninstall: %w: stop it first", checkpoint.ErrLocked)
	}
	// The server ends a session only some time after its client has left.
	defer func() {
		_, uerr := s.Conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock_all()")
		err = errors.Join(err, uerr)
	}()
	if s.Schema != "" && !force {
		var parked int
		if err := s.Conn.QueryRow(ctx, s.SQL(`SELECT count(*) FROM {parked} WHERE pipeline = $1 AND state IN ('retrying', 'waiting', 'dead')`),
			cfg.Pipeline).Scan(&parked); err != nil {
			return nil, nil, fmt.Errorf("count parked deliveries: %w", err)
		}
		if parked > 0 {
			return nil, nil, fmt.Errorf("uninstall: what is parked would be lost (deliveries: %d): let it end, drop it (tailbox dead drop), or use --force", parked)
		}
	}
	return uninstall(ctx, s)
}

func uninstall(ctx context.Context, s *pgstore.Store) (dropped, left []string, err error) {
	slot, publication, left, err := ownedBy(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if slot {
		there, err := upstream.WaitFree(ctx, &s.Cfg, s.Conn.PgConn())
		if err != nil {
			return nil, nil, err
		}
		slot = there != nil
	}
	if slot {
		if _, err := s.Conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", s.Cfg.Slot); err != nil {
			return nil, nil, fmt.Errorf("drop slot %s: %w", s.Cfg.Slot, err)
		}
		dropped = append(dropped, "slot "+s.Cfg.Slot)
	}
	err = s.InTx(ctx, func() error {
		if publication {
			if _, err := s.Conn.Exec(ctx, "DROP PUBLICATION "+sqltext.Ident(s.Cfg.Publication)); err != nil {
				return err
			}
			dropped = append(dropped, "publication "+s.Cfg.Publication)
		}
		what, err := dropTables(ctx, s)
		if what != "" {
			dropped = append(dropped, what)
		}
		return err
	})
	if err != nil {
		fix := ""
		if pgerr.State(err) == "42501" {
			fix = ": run tailbox uninstall, or the SQL of `tailbox uninstall --print`, as the owner of the tables"
		}
		return nil, nil, fmt.Errorf("uninstall: %w%s", err, fix)
	}
	return dropped, left, nil
}

// dropTables drops the relay's tables or, where other pipelines use them, this one's rows; "" where there are none.
func dropTables(ctx context.Context, s *pgstore.Store) (what string, err error) {
	if s.Schema == "" {
		return "", nil
	}
	var others bool
	if err := s.Conn.QueryRow(ctx, s.SQL("SELECT EXISTS (SELECT FROM {checkpoint} WHERE pipeline <> $1) OR EXISTS (SELECT FROM {parked} WHERE pipeline <> $1)"),
		s.Cfg.Pipeline).Scan(&others); err != nil {
		return "", err
	}
	if !others {
		_, err := s.Conn.Exec(ctx, s.SQL("DROP TABLE {request}, {parked}, {checkpoint}"))
		return "tables tailbox_*", err
	}
	for _, table := range []string{"{request}", "{parked}", "{checkpoint}"} {
		if _, err := s.Conn.Exec(ctx, s.SQL("DELETE FROM "+table+" WHERE pipeline = $1"), s.Cfg.Pipeline); err != nil {
			return "", err
		}
	}
	return "rows of pipeline " + s.Cfg.Pipeline + " in tailbox_*, which other pipelines use", nil
}

// ownedBy reports whether the slot and the publication are the pipeline's own. left names those that exist but are not.
func ownedBy(ctx context.Context, s *pgstore.Store) (slot, publication bool, left []string, err error) {
	there, err := upstream.Find(ctx, &s.Cfg, s.Conn.PgConn())
	if err != nil {
		return false, false, nil, err
	}
	if there != nil {
		o, err := s.SlotClaims().Of(ctx, s.Conn, there)
		if err != nil {
			return false, false, nil, err
		}
		slot = o.Own && o.Refused == ""
		if !slot && !s.Cfg.Poll {
			left = append(left, fmt.Sprintf("slot %s, which %s: if nobody needs it, SELECT pg_drop_replication_slot(%s)", s.Cfg.Slot,
				orText(o.Refused, "this pipeline has not taken over yet"), sqltext.Literal(s.Cfg.Slot)))
		}
	}
	why, err := publicationMaker(ctx, s)
	if err != nil {
		return false, false, nil, err
	}
	if why != "" && why != ownPublication && !s.Cfg.Poll {
		left = append(left, fmt.Sprintf("publication %s, which %s: if nobody needs it, DROP PUBLICATION %s", s.Cfg.Publication, why, sqltext.Ident(s.Cfg.Publication)))
	}
	return slot, why == ownPublication, left, nil
}

// ownPublication is what publicationMaker says of the pipeline's own.
const ownPublication = "was made by this pipeline"

// publicationMaker says why the publication is the pipeline's own (ownPublication), or is not; "" where there is none.
func publicationMaker(ctx context.Context, s *pgstore.Store) (string, error) {
	var mark string
	err := s.Conn.QueryRow(ctx, "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = $1", s.Cfg.Publication).Scan(&mark)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for the publication: %w", err)
	}
	if s.Schema != "" {
		var other string
		if err := s.Conn.QueryRow(ctx, s.SQL(`SELECT coalesce(min(pipeline), '') FROM {checkpoint} WHERE pipeline <> $1 AND publication = $2`),
			s.Cfg.Pipeline, s.Cfg.Publication).Scan(&other); err != nil {
			return "", s.Fault("look who uses the publication", err)
		}
		if other != "" {
			return "is used by pipeline " + other, nil
		}
	}
	if mark != ddl.PublicationMark(s.Cfg) {
		return "was not made by this pipeline", nil
	}
	return ownPublication, nil
}
