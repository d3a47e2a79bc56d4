package main

import (
	"fmt"

	"github.com/tailbox/tailbox/test/servers"
)

// installNATS installs Debian's nats-server if it is missing.
func installNATS() error {
	if bin, err := servers.NATSBin(); err == nil {
		fmt.Printf("NATS: %s\n", bin)
		return nil
	}
	if err := need("nats-server", "nats-server"); err != nil {
		return err
	}
	bin, err := servers.NATSBin()
	if err != nil {
		return err
	}
	fmt.Printf("NATS: %s\n", bin)
	return nil
}
