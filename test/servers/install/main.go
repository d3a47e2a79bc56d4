// Command install puts the servers that tests need on this machine: Debian's
// Postgres 15, Postgres 16 to 18 and all programs of 17 and 18, MySQL, MariaDB, MongoDB, Kafka, NATS, PgBouncer, Chromium, promtool, and the languages of the documentation. It does nothing if they are
// there already; with the argument rivals it fetches what tailbox is compared with. Only Debian's packages need root. What cannot be had is named,
// and is an error under CI=true; elsewhere the tests that need it are skipped.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tailbox/tailbox/test/servers"
)

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "install servers: %v\n", err)
	var missing missingError
	if errors.As(err, &missing) && os.Getenv("CI") != "true" {
		fmt.Fprintln(os.Stderr, "install servers: tests that need these will be SKIPPED")
		return
	}
	os.Exit(1)
}

// missingError holds why servers could not be installed.
type missingError struct{ error }

// Unwrap returns the reasons.
func (e missingError) Unwrap() error { return e.error }

// run installs everything, or, called by itself as another user, the one
// Postgres version that is named.
func run(args []string) error {
	if len(args) == 2 && args[0] == "postgres" {
		return servers.FetchPostgres(args[1], io.Discard)
	}
	rivals := len(args) == 1 && args[0] == "rivals"
	if len(args) != 0 && !rivals {
		return fmt.Errorf("read arguments: want none, or rivals, got %q", args)
	}
	cache, err := servers.CacheDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	unlock, err := lock(cache)
	if err != nil {
		return err
	}
	defer unlock()
	if rivals {
		return installDebeziumServer(cache)
	}
	var missing error
	for _, version := range servers.PostgresVersions() {
		missing = errors.Join(missing, installPostgres(cache, version))
	}
	for _, version := range slices.Sorted(maps.Keys(servers.PostgresPrograms())) {
		missing = errors.Join(missing, installPrograms(cache, version))
	}
	missing = errors.Join(missing, installMongo(cache))
	for _, kind := range servers.MySQLKinds() {
		missing = errors.Join(missing, installMySQL(cache, kind))
	}
	if missing = errors.Join(missing, installKafka(cache), installDebezium(cache), installNATS(), installPgBouncer(), installBrowser(), installAxe(cache), installPromtool(), installLanguages()); missing != nil {
		return missingError{missing}
	}
	return nil
}

// lock lets one installer at a time into the cache; the others wait, and then
// find the work done.
func lock(cache string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock cache: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock cache: %w", err), f.Close())
	}
	return func() { f.Close() }, nil
}
