package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// AddStandby makes a physical standby of the server, by a base backup and a
// physical slot of its own, and returns once it streams. It stops before the
// server does. Options apply to the standby; it inherits the server's own. Stop,
// Kill and Pause work on it as on any server.
func (pg *PG) AddStandby(tb testing.TB, opts ...Option) *PG {
	tb.Helper()
	if err := pg.owned("add a standby to"); err != nil {
		unavailable(tb, err)
	}
	standby, err := pg.StartStandby(opts...)
	if err != nil {
		tb.Fatalf("add standby: %v", err)
	}
	tb.Cleanup(func() { standby.finish(tb) })
	return standby
}

// StartStandby is AddStandby for programs that are no tests; the caller closes
// the standby.
func (pg *PG) StartStandby(opts ...Option) (*PG, error) {
	if err := pg.owned("add a standby to"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	bin, err := PostgresBin(pg.Version)
	if err != nil {
		return nil, err
	}
	o := pgOptions{settings: append([]string{}, pg.settings...)}
	for _, opt := range opts {
		opt(&o)
	}
	var name string
	standby, err := launchPostgres(pg.Version, bin, o.settings, func(standby *PG) error {
		// The directory's random end serves as a name: the port is not known yet
		// and may change if another process takes it.
		name = "standby_" + standby.SocketDir[strings.LastIndexByte(standby.SocketDir, '-')+1:]
		primary := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s dbname=postgres", pg.Port, name)
		standby.settings = append(standby.settings, "hot_standby=on", "hot_standby_feedback=on",
			"primary_slot_name="+name, "primary_conninfo="+primary)
		return pg.backup(ctx, name, standby.DataDir)
	})
	if err != nil {
		return nil, err
	}
	standby.StandbyName = name
	if err := pg.awaitStandby(ctx, name); err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

// RequireStandby makes every commit on the server wait until the standby has
// it; with nil, commits wait for nobody again. A paused standby then makes them
// hang.
func (pg *PG) RequireStandby(ctx context.Context, standby *PG) error {
	names := ""
	if standby != nil {
		names = standby.StandbyName
	}
	conn, err := pgx.Connect(ctx, pg.SocketURL("postgres"))
	if err != nil {
		return fmt.Errorf("require standby: %w", err)
	}
	defer conn.Close(ctx)
	// ALTER SYSTEM takes no parameters; the name holds letters, digits and _.
	if _, err := conn.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
		return fmt.Errorf("require standby: %w", err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return fmt.Errorf("require standby: %w", err)
	}
	// The reload reaches each process of the server in its own time: the
	// walsender, whose view is listed, and the checkpointer, who decides whether
	// commits wait and looks at its settings before it serves a request.
	err = poll(ctx, func() error {
		var wrong bool
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication
			WHERE (sync_state IN ('sync', 'quorum')) <> (application_name = $1 AND $1 <> ''))`, names).Scan(&wrong)
		if err == nil && wrong {
			err = errors.New("the setting has not come into force")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("require standby: %w", err)
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		return fmt.Errorf("require standby: %w", err)
	}
	return nil
}

// Promote makes a standby a primary, on a new timeline, and returns when it
// accepts writes.
func (pg *PG) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, pg.SocketURL("postgres"))
	if err != nil {
		return fmt.Errorf("promote standby: %w", err)
	}
	defer conn.Close(ctx)
	var done bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote(true, 60)").Scan(&done); err != nil {
		return fmt.Errorf("promote standby: %w", err)
	}
	if !done {
		return errors.New("promote standby: it is still a standby after 60 s")
	}
	return nil
}

// backup copies the running server's data as its low-level backup interface
// allows, which works for each version with no further program: the installed
// binaries bring no pg_basebackup.
func (pg *PG) backup(ctx context.Context, slot, dataDir string) error {
	conn, err := pgx.Connect(ctx, pg.SocketURL("postgres"))
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer conn.Close(ctx)
	// The slot comes first and reserves WAL at once, so that the server keeps
	// all that the standby will ask for.
	if _, err := conn.Exec(ctx, "SELECT pg_create_physical_replication_slot($1, true)", slot); err != nil {
		return fmt.Errorf("back up: create slot: %w", err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_backup_start($1, true)", slot); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	if err := copyTree(pg.DataDir, dataDir, "postmaster.pid", "postmaster.opts", "pg_wal", "pg_replslot",
		"pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans", "postgresql.auto.conf"); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(false)").Scan(&label); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	for name, text := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": ""} {
		path := filepath.Join(dataDir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("back up: %w", err)
		}
		if err := own(path); err != nil {
			return err
		}
	}
	for _, name := range []string{"pg_wal/archive_status", "pg_wal/summaries"} {
		path := filepath.Join(dataDir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return fmt.Errorf("back up: %w", err)
		}
		if err := own(path); err != nil {
			return err
		}
	}
	return nil
}

// awaitStandby waits until the standby streams from the server.
func (pg *PG) awaitStandby(ctx context.Context, name string) error {
	conn, err := pgx.Connect(ctx, pg.SocketURL("postgres"))
	if err != nil {
		return fmt.Errorf("wait for standby %s: %w", name, err)
	}
	defer conn.Close(ctx)
	return poll(ctx, func() error {
		var streams bool
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication
			WHERE application_name = $1 AND state = 'streaming')`, name).Scan(&streams)
		if err == nil && !streams {
			err = fmt.Errorf("standby %s does not stream yet", name)
		}
		return err
	})
}

// poll asks until there is no error or ctx ends.
func poll(ctx context.Context, ask func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}
