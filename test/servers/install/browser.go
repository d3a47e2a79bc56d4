package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tailbox/tailbox/test/servers"
)

// axeWheel is a Python package that carries axe-core, which is one script.
const axeWheel = "axe-playwright-python==0.1.8"

// installBrowser installs Debian's Chromium, with which the console's pages are tested, if it is missing.
func installBrowser() error {
	bin, err := servers.ChromiumBin()
	if err != nil {
		if err := need("chromium", "chromium"); err != nil {
			return err
		}
		if bin, err = servers.ChromiumBin(); err != nil {
			return err
		}
	}
	fmt.Printf("Chromium: %s\n", bin)
	return nil
}

// installAxe fetches axe-core if it is missing, with pip as its client.
func installAxe(cache string) (err error) {
	final := filepath.Join(cache, "axe-core-"+servers.AxeVersion)
	if _, err := servers.AxeScript(); err == nil {
		fmt.Printf("axe-core: %s\n", final)
		return nil
	}
	if err := need("pip3", "python3-pip"); err != nil {
		return err
	}
	fmt.Println("axe-core: fetching")
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	wheel, err := fetchWheel(work, axeWheel)
	if err != nil {
		return err
	}
	tree := filepath.Join(work, "axe")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return fmt.Errorf("make directory of axe-core: %w", err)
	}
	if err := unpack(wheel, "/axe.min.js", filepath.Join(tree, "axe.min.js")); err != nil {
		return err
	}
	if err := pinned(tree, filepath.Base(final)); err != nil {
		return err
	}
	if err := os.Rename(tree, final); err != nil {
		return fmt.Errorf("install axe-core: %w", err)
	}
	fmt.Printf("axe-core: %s\n", final)
	return nil
}
