package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// release is what is downloaded where no Postgres is found.
const release = "17.6.0"

// oldest is the oldest major version that logical decoding is used of.
const oldest = 14

// Find returns the folder that holds initdb and postgres: of an earlier download, of a package of the system, or else
// downloaded now. progress is called with what is going on, in words for a person.
func Find(ctx context.Context, progress func(string)) (bin string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	downloaded := filepath.Join(cache, "postgres-"+release, "bin")
	if usable(ctx, downloaded) {
		return downloaded, nil
	}
	for _, dir := range installed() {
		if usable(ctx, dir) {
			return dir, nil
		}
	}
	if err := fetch(ctx, cache, progress); err != nil {
		return "", fmt.Errorf("download Postgres %s: %w: without a network, install Postgres %d or later, or give a server with --url",
			release, err, oldest)
	}
	if !usable(ctx, downloaded) {
		return "", fmt.Errorf("run the downloaded Postgres in %s: it does not start here: install Postgres %d or later, or give a server with --url",
			downloaded, oldest)
	}
	return downloaded, nil
}

// cacheDir is where downloads are kept: $TAILBOX_CACHE, else the user's cache folder. As root it is one that the
// unprivileged user may enter too.
func cacheDir() (string, error) {
	if dir := os.Getenv("TAILBOX_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/tailbox", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w: set TAILBOX_CACHE", err)
	}
	return filepath.Join(dir, "tailbox"), nil
}

// installed lists folders of packages of the system, newest first.
func installed() []string {
	var dirs []string
	for major := 30; major >= oldest; major-- {
		dirs = append(dirs, fmt.Sprintf("/usr/lib/postgresql/%d/bin", major), fmt.Sprintf("/usr/pgsql-%d/bin", major))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	return dirs
}

var version = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// usable reports whether the folder holds programs that run here, new enough. None of them runs as root: the folder may be another user's.
func usable(ctx context.Context, bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), "--version")
		demote(cmd)
		out, err := cmd.Output()
		if err != nil {
			return false
		}
		found := version.FindSubmatch(out)
		if found == nil {
			return false
		}
		if major, err := strconv.Atoi(string(found[1])); err != nil || major < oldest {
			return false
		}
	}
	return true
}
