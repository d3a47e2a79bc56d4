package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// PostgresVersions are the major versions that tests run against.
func PostgresVersions() []string { return []string{"15", "16", "17", "18"} }

// debianPostgres15 is where Debian's postgresql-15 keeps its programs.
const debianPostgres15 = "/usr/lib/postgresql/15/bin"

// postgresPin returns the exact release that we install of a major version.
func postgresPin(version string) (embeddedpostgres.PostgresVersion, error) {
	switch version {
	case "15": // only where Debian's package cannot be installed
		return embeddedpostgres.V15, nil
	case "16":
		return "16.10.0", nil
	case "17":
		return "17.6.0", nil
	case "18":
		return "18.1.0", nil
	}
	return "", fmt.Errorf("find Postgres %q: no such version here; have %v", version, PostgresVersions())
}

// PostgresBin returns the directory of a major version's initdb and postgres,
// or an error that names what installs them.
func PostgresBin(version string) (string, error) {
	pin, err := postgresPin(version)
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dirs := []string{filepath.Join(cache, "postgres-"+string(pin), "bin")}
	if version == "15" {
		dirs = append([]string{debianPostgres15}, dirs...)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find Postgres %s: no initdb in %v; run: make servers", version, dirs)
}

// FetchPostgres downloads a major version's programs into [CacheDir] and proves
// that they run, by a first start. It does nothing if they are there
// already. initdb refuses root: call it as another user, who may write there.
func FetchPostgres(version string, log io.Writer) (err error) {
	if _, err := PostgresBin(version); err == nil {
		return nil
	}
	pin, err := postgresPin(version)
	if err != nil {
		return err
	}
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	// Extracted beside the final place, so that a download cut short leaves
	// nothing that looks like an installed server.
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return fmt.Errorf("make download directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil {
		return fmt.Errorf("open download directory to all: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	binaries := filepath.Join(work, "binaries")
	config := embeddedpostgres.DefaultConfig().Version(pin).Port(uint32(port)).Logger(log).
		CachePath(filepath.Join(work, "archive")).RuntimePath(filepath.Join(work, "run")).
		BinariesPath(binaries).
		StartParameters(map[string]string{"unix_socket_directories": "", "listen_addresses": "localhost"})
	if url := os.Getenv("TAILBOX_MAVEN_URL"); url != "" {
		config = config.BinaryRepositoryURL(url)
	}
	server := embeddedpostgres.NewDatabase(config)
	if err := server.Start(); err != nil {
		return fmt.Errorf("fetch and start Postgres %s: %w; behind a mirror set TAILBOX_MAVEN_URL to its Maven Central", pin, err)
	}
	if err := server.Stop(); err != nil {
		return fmt.Errorf("stop Postgres %s: %w", pin, err)
	}
	if err := os.Rename(binaries, filepath.Join(cache, "postgres-"+string(pin))); err != nil {
		return fmt.Errorf("install Postgres %s: %w", pin, err)
	}
	return nil
}
