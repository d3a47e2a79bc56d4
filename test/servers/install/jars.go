package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// installJars collects the jars of a pom in a folder of the cache, below lib, if they are missing; Java and Maven included
// where we may install Debian packages.
func installJars(cache, title, folder, pom string, have bool) (err error) {
	if err := need("java", "default-jre-headless"); err != nil {
		return err
	}
	final := filepath.Join(cache, folder)
	if have {
		fmt.Printf("%s: %s\n", title, filepath.Join(final, "lib"))
		return nil
	}
	if err := need("mvn", "maven"); err != nil {
		return err
	}
	fmt.Printf("%s: fetching\n", title)
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("open work directory to all: %w", err)
	}
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o644); err != nil {
		return fmt.Errorf("write pom: %w", err)
	}
	cmd := exec.Command("mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(work, "jars", "lib"))
	cmd.Dir = work
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run mvn for the jars of %s: %w", title, err)
	}
	if err := pinned(filepath.Join(work, "jars"), folder); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work, "jars"), final); err != nil {
		return fmt.Errorf("install %s: %w", title, err)
	}
	fmt.Printf("%s: %s\n", title, final)
	return nil
}
