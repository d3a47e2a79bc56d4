package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/tailbox/tailbox/test/servers"
)

// nobody is the user that fetches and first starts Postgres when we are root.
const nobody = 65534

// installPostgres installs one major version if it is missing.
func installPostgres(cache, version string) error {
	if dir, err := servers.PostgresBin(version); err == nil {
		fmt.Printf("Postgres %s: %s\n", version, dir)
		return nil
	}
	if version == "15" && canInstall() {
		// Debian's own build: the one that users of Debian stable run.
		return installDebian("postgresql-15")
	}
	fmt.Printf("Postgres %s: fetching\n", version)
	if os.Geteuid() != 0 {
		return servers.FetchPostgres(version, io.Discard)
	}
	return fetchAsNobody(cache, version)
}

// fetchAsNobody runs this program again as a user that initdb accepts. Program
// and cache are moved for it to where that user may go.
func fetchAsNobody(cache, version string) (err error) {
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.Chown(work, nobody, nobody); err != nil {
		return fmt.Errorf("give work directory away: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	copied := filepath.Join(work, "install")
	if err := os.WriteFile(copied, program, 0o755); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	cmd := exec.Command(copied, "postgres", version)
	cmd.Env = append(os.Environ(), "HOME="+work, "TAILBOX_CACHE="+work)
	cmd.Dir = work
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fetch Postgres %s as user %d: %w", version, nobody, err)
	}
	made, err := filepath.Glob(filepath.Join(work, "postgres-*"))
	if err != nil || len(made) != 1 {
		return fmt.Errorf("find fetched Postgres %s: got %v", version, made)
	}
	if err := takeBack(made[0]); err != nil {
		return err
	}
	final := filepath.Join(cache, filepath.Base(made[0]))
	if err := pinned(made[0], filepath.Base(final)); err != nil {
		return err
	}
	if err := os.Rename(made[0], final); err != nil {
		return fmt.Errorf("install Postgres %s: %w", version, err)
	}
	fmt.Printf("Postgres %s: %s\n", version, filepath.Join(final, "bin"))
	return nil
}

// takeBack gives a tree to root, so that no other user changes what root's tests start.
func takeBack(tree string) error {
	return filepath.WalkDir(tree, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("take %s back: %w", tree, err)
		}
		return os.Lchown(path, 0, 0)
	})
}
