package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// policyFile, exiting with 101, tells Debian's packages not to start the
// services that they bring; tests start their own.
const policyFile = "/usr/sbin/policy-rc.d"

// canInstall reports whether Debian packages can be installed here and now.
func canInstall() bool {
	_, err := exec.LookPath("apt-get")
	return err == nil && os.Geteuid() == 0
}

// need makes sure that a program is there, by its Debian package if it may.
func need(program, debianPackage string) error {
	if _, err := exec.LookPath(program); err == nil {
		return nil
	}
	if !canInstall() {
		return fmt.Errorf("find %s: it is not installed; as root run: apt-get install %s", program, debianPackage)
	}
	return installDebian(debianPackage)
}

// installDebian installs packages without starting what they bring. The lists
// of packages may be missing or old, so they are fetched first.
func installDebian(packages ...string) error {
	fmt.Printf("Debian %s: installing\n", strings.Join(packages, ", "))
	if _, err := os.Stat(policyFile); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(policyFile, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", policyFile, err)
		}
		defer os.Remove(policyFile) // it was ours; the machine's own services may start again
	}
	for _, args := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.Command("apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("run apt-get %s for %s: %w", args[0], strings.Join(packages, ", "), err)
		}
	}
	return nil
}
