// Command install puts the servers that tests need on this machine: Debian's
// Postgres 15, Postgres 16 to 18, and Kafka. It does nothing where they are
// there already. Only Debian's packages need root; without it, and where there
// is no apt-get, the rest is installed and what is missing is named.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/tailbox/tailbox/test/servers"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "install servers: %v\n", err)
		os.Exit(1)
	}
}

// run installs everything, or, called by itself as another user, the one
// Postgres version that is named.
func run(args []string) error {
	if len(args) == 2 && args[0] == "postgres" {
		return servers.FetchPostgres(args[1], io.Discard)
	}
	if len(args) != 0 {
		return fmt.Errorf("read arguments: want none, got %q", args)
	}
	cache, err := servers.CacheDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	for _, version := range servers.PostgresVersions() {
		if err := installPostgres(cache, version); err != nil {
			return err
		}
	}
	return installKafka(cache)
}
