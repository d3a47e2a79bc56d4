package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/checkpoint"
)

// uninstallSQL is what Uninstall does, as a script. The tables go only where no other pipeline uses them; the script leaves
// that to who runs it.
func uninstallSQL(cfg Config) string {
	n := tableNames(cfg.Schema)
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
`, quoteLiteral(cfg.Slot), n.checkpoint, quoteLiteral(cfg.Pipeline), quoteLiteral(cfg.Publication), quoteLiteral(publicationMark(cfg)), quoteIdent(cfg.Publication))
	}
	for _, name := range []string{n.request, n.parked, n.checkpoint} {
		fmt.Fprintf(&b, "DELETE FROM %s WHERE pipeline OPERATOR(pg_catalog.=) %s;\n", name, quoteLiteral(cfg.Pipeline))
	}
	fmt.Fprintf(&b, "-- if no other pipeline uses them:\nDROP TABLE IF EXISTS %s, %s, %s;\n", n.request, n.parked, n.checkpoint)
	return b.String()
}

// Uninstall drops the slot and the publication, where the pipeline has made or taken them over, and, unless other pipelines use
// them, the tables tailbox_*. It returns what it dropped, and what it left because it may be somebody else's, with what to do
// about it. It refuses while a relay runs, and, without force, while deliveries are parked: they would be lost. The outbox
// tables stay.
func (cfg Config) Uninstall(ctx context.Context, force bool) (dropped, left []string, err error) {
	s, err := openAnyReader(ctx, cfg)
	if err != nil && !errors.Is(err, checkpoint.ErrNoTables) {
		return nil, nil, err
	}
	if s == nil {
		// Without tables there is nothing parked and nobody runs; slot and publication may be there.
		conn, err := cfg.connect(ctx)
		if err != nil {
			return nil, nil, err
		}
		s = &stateStore{cfg: cfg, conn: conn}
	}
	defer func() { err = errors.Join(err, closeConn(ctx, s.conn)) }()
	if err := cfg.onePlace(ctx, s.conn); err != nil {
		return nil, nil, fmt.Errorf("uninstall: %w", err)
	}
	var free bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockKey(cfg.Pipeline)).Scan(&free); err != nil {
		return nil, nil, fmt.Errorf("take the pipeline's lock: %w", err)
	}
	if !free {
		return nil, nil, fmt.Errorf("uninstall: %w: stop it first", checkpoint.ErrLocked)
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
			return nil, nil, fmt.Errorf("count parked deliveries: %w", err)
		}
		if parked > 0 {
			return nil, nil, fmt.Errorf("uninstall: what is parked would be lost (deliveries: %d): let it end, drop it (tailbox dead drop), or use --force", parked)
		}
	}
	return s.uninstall(ctx)
}

func (s *stateStore) uninstall(ctx context.Context) (dropped, left []string, err error) {
	slot, publication, left, err := s.owned(ctx)
	if err != nil {
		return nil, nil, err
	}
	if slot {
		there, err := s.cfg.inactiveSlot(ctx, s.conn.PgConn())
		if err != nil {
			return nil, nil, err
		}
		slot = there != nil
	}
	if slot {
		if _, err := s.conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", s.cfg.Slot); err != nil {
			return nil, nil, fmt.Errorf("drop slot %s: %w", s.cfg.Slot, err)
		}
		dropped = append(dropped, "slot "+s.cfg.Slot)
	}
	err = s.inTx(ctx, func() error {
		if publication {
			if _, err := s.conn.Exec(ctx, "DROP PUBLICATION "+quoteIdent(s.cfg.Publication)); err != nil {
				return err
			}
			dropped = append(dropped, "publication "+s.cfg.Publication)
		}
		what, err := s.dropTables(ctx)
		if what != "" {
			dropped = append(dropped, what)
		}
		return err
	})
	if err != nil {
		cure := ""
		if sqlState(err) == "42501" {
			cure = ": run tailbox uninstall, or the SQL of `tailbox uninstall --print`, as the owner of the tables"
		}
		return nil, nil, fmt.Errorf("uninstall: %w%s", err, cure)
	}
	return dropped, left, nil
}

// dropTables drops the relay's tables or, where other pipelines use them, this one's rows; "" where there are none.
func (s *stateStore) dropTables(ctx context.Context) (what string, err error) {
	if s.schema == "" {
		return "", nil
	}
	var others bool
	if err := s.conn.QueryRow(ctx, s.q("SELECT EXISTS (SELECT FROM {checkpoint} WHERE pipeline <> $1) OR EXISTS (SELECT FROM {parked} WHERE pipeline <> $1)"),
		s.cfg.Pipeline).Scan(&others); err != nil {
		return "", err
	}
	if !others {
		_, err := s.conn.Exec(ctx, s.q("DROP TABLE {request}, {parked}, {checkpoint}"))
		return "tables tailbox_*", err
	}
	for _, table := range []string{"{request}", "{parked}", "{checkpoint}"} {
		if _, err := s.conn.Exec(ctx, s.q("DELETE FROM "+table+" WHERE pipeline = $1"), s.cfg.Pipeline); err != nil {
			return "", err
		}
	}
	return "rows of pipeline " + s.cfg.Pipeline + " in tailbox_*, which other pipelines use", nil
}

// owned tells whether slot and publication are there and the pipeline's own, and names those that are left because they are not.
func (s *stateStore) owned(ctx context.Context) (slot, publication bool, left []string, err error) {
	there, err := s.cfg.slot(ctx, s.conn.PgConn())
	if err != nil {
		return false, false, nil, err
	}
	if there != nil {
		o, err := s.ownerOf(ctx, there)
		if err != nil {
			return false, false, nil, err
		}
		slot = o.own && o.refused == ""
		if !slot && !s.cfg.Poll {
			left = append(left, fmt.Sprintf("slot %s, which %s: if nobody needs it, SELECT pg_drop_replication_slot(%s)", s.cfg.Slot,
				orText(o.refused, "this pipeline has not taken over yet"), quoteLiteral(s.cfg.Slot)))
		}
	}
	why, err := s.publicationMaker(ctx)
	if err != nil {
		return false, false, nil, err
	}
	if why != "" && why != ownPublication && !s.cfg.Poll {
		left = append(left, fmt.Sprintf("publication %s, which %s: if nobody needs it, DROP PUBLICATION %s", s.cfg.Publication, why, quoteIdent(s.cfg.Publication)))
	}
	return slot, why == ownPublication, left, nil
}

// ownPublication is what publicationMaker says of the pipeline's own.
const ownPublication = "was made by this pipeline"

// publicationMark is the comment by which a pipeline knows a publication that was made for it. It is there before the pipeline has a
// row in tailbox_checkpoint, and goes with the publication.
func publicationMark(cfg Config) string { return "tailbox: pipeline " + cfg.Pipeline }

// publicationMaker says why the publication is the pipeline's own (ownPublication), or is not; "" where there is none.
func (s *stateStore) publicationMaker(ctx context.Context) (string, error) {
	var mark string
	err := s.conn.QueryRow(ctx, "SELECT coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication WHERE pubname = $1", s.cfg.Publication).Scan(&mark)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for the publication: %w", err)
	}
	if s.schema != "" {
		var other string
		if err := s.conn.QueryRow(ctx, s.q(`SELECT coalesce(min(pipeline), '') FROM {checkpoint} WHERE pipeline <> $1 AND publication = $2`),
			s.cfg.Pipeline, s.cfg.Publication).Scan(&other); err != nil {
			return "", s.fault("look who uses the publication", err)
		}
		if other != "" {
			return "is used by pipeline " + other, nil
		}
	}
	if mark != publicationMark(s.cfg) {
		return "was not made by this pipeline", nil
	}
	return ownPublication, nil
}
