package main

import (
	"fmt"

	"github.com/tailbox/tailbox/test/servers"
)

// installPromtool installs Debian's prometheus, for its promtool, if it is missing.
func installPromtool() error {
	bin, err := servers.PromtoolBin()
	if err != nil {
		if err := need("promtool", "prometheus"); err != nil {
			return err
		}
		if bin, err = servers.PromtoolBin(); err != nil {
			return err
		}
	}
	fmt.Printf("promtool: %s\n", bin)
	return nil
}
