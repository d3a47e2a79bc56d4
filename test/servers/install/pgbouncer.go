package main

import (
	"fmt"

	"github.com/tailbox/tailbox/test/servers"
)

// installPgBouncer installs Debian's pgbouncer if it is missing.
func installPgBouncer() error {
	bin, err := servers.PgBouncerBin()
	if err != nil {
		if err := need("pgbouncer", "pgbouncer"); err != nil {
			return err
		}
		if bin, err = servers.PgBouncerBin(); err != nil {
			return err
		}
	}
	fmt.Printf("PgBouncer: %s\n", bin)
	return nil
}
