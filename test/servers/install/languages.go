package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/tailbox/tailbox/test/servers"
)

// installLanguages installs the languages in which the documentation writes messages, and their drivers of Postgres, if they are missing.
func installLanguages() error {
	all, err := servers.Languages()
	if err != nil {
		return err
	}
	var packages []string
	for _, extension := range slices.Sorted(maps.Keys(all)) {
		l := all[extension]
		if l.Missing() == nil {
			continue
		}
		there := true
		for _, program := range l.Programs {
			_, err := exec.LookPath(program)
			there = there && err == nil
		}
		for i, name := range l.Packages {
			if !there || i > 0 && name != "npm" { // the first one brings the programs, and may be there from elsewhere
				packages = append(packages, name)
			}
		}
	}
	if len(packages) > 0 {
		if !canInstall() {
			return fmt.Errorf("find languages: as root run: apt-get install %v", packages)
		}
		if err := installDebian(packages...); err != nil {
			return err
		}
	}
	node := all[".js"]
	if err := fetched(filepath.Dir(filepath.Dir(node.Has)), "npm", append([]string{"install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"}, inFolder), servers.NodePackages()); err != nil {
		return err
	}
	python, err := servers.PythonFolder()
	if err != nil {
		return err
	}
	if err := need("/usr/bin/pip3", "python3-pip"); err != nil {
		return err
	}
	if err := fetched(python, "/usr/bin/pip3", []string{"install", "--quiet", "--target", inFolder}, servers.PythonPackages()); err != nil {
		return err
	}
	for _, extension := range slices.Sorted(maps.Keys(all)) {
		l := all[extension]
		if err := l.Missing(); err != nil {
			return err
		}
		fmt.Printf("language of %s: %s\n", extension, l.Command[0])
	}
	return nil
}

// inFolder stands for the folder that a program writes to.
const inFolder = "FOLDER"

// fetched has a program fetch packages of a language into a folder, if they are missing. It compares what it fetches with the sums of its registry.
func fetched(final, program string, arguments, packages []string) (err error) {
	if _, err := os.Stat(final); err == nil {
		return nil
	}
	work, err := os.MkdirTemp(filepath.Dir(final), "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	arguments = append(slices.Clone(arguments), packages...)
	arguments[slices.Index(arguments, inFolder)] = work
	cmd := exec.Command(program, arguments...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s for %v: %w", program, packages, err)
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("open %s to all: %w", final, err)
	}
	return os.Rename(work, final)
}
