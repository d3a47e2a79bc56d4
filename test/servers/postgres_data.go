package servers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// initdb makes a data directory: user postgres, UTF-8, no locale, everybody on
// this machine is let in without a password, replication connections too.
func initdb(bin, dataDir string, more ...string) error {
	home := filepath.Dir(dataDir)
	// --no-sync: a machine that dies now has no use for the data.
	cmd := exec.Command(filepath.Join(bin, "initdb"), append([]string{"-D", dataDir, "-U", "postgres", "--auth=trust",
		"--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"}, more...)...)
	demote(cmd, home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run initdb of %s: %w\n%s", bin, err, out)
	}
	return nil
}

// postgresTemplate returns a data directory of the version that was never
// started, made by the first process that asks and kept in the cache: a copy
// takes a tenth of initdb's time.
func postgresTemplate(version, bin string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	release, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask postgres for its version: %w", err)
	}
	fields := strings.Fields(string(release)) // postgres (PostgreSQL) 15.18 (Debian …)
	if len(fields) < 3 {
		return "", fmt.Errorf("read version of %s: got %q", bin, release)
	}
	template := filepath.Join(cache, "data-"+version+"-"+fields[2])
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}
	dir, err := tempDir("tailbox-initdb-")
	if err != nil {
		return "", err
	}
	made := filepath.Join(dir, "data")
	if err := initdb(bin, made); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return template, errors.Join(publishTree(made, template), os.RemoveAll(dir))
}

// publishTree copies a directory to its final name in one step, so that a
// process that looks sees all of it or nothing. Who comes second keeps what the
// first one made.
func publishTree(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(to), "new-")
	if err != nil {
		return fmt.Errorf("make cache directory: %w", err)
	}
	defer os.RemoveAll(work) // empty by then, or what a failed copy left
	if err := copyTree(from, filepath.Join(work, "tree")); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(work, "tree"), to)
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return fmt.Errorf("publish %s: %w", to, err)
	}
	return nil
}

// copyTree copies a data directory, with modes, for the server's user. Files
// that vanish meanwhile are left out, and skip names those that must be:
// directories named there are copied without their content.
func copyTree(from, to string, skip ...string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return fmt.Errorf("copy %s: %w", path, err)
		}
		skipped := false
		for _, s := range skip {
			skipped = skipped || name == s
		}
		target := filepath.Join(to, name)
		if d.IsDir() {
			if err := os.MkdirAll(target, 0o700); err != nil {
				return fmt.Errorf("copy %s: %w", path, err)
			}
			if err := own(target); err != nil {
				return err
			}
			if skipped {
				return fs.SkipDir
			}
			return nil
		}
		if skipped || !d.Type().IsRegular() {
			return nil
		}
		err = copyFile(path, target)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// copyFile copies one file for the server's user.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy file: %w", err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return own(to)
}

// removeSharedMemory removes the System V segment that a killed server left
// behind. It is small, but the kernel keeps only 4,096 of them, and nobody else
// would remove it.
func removeSharedMemory(dataDir string) error {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read killed server's postmaster.pid: %w", err)
	}
	lines := strings.Split(string(text), "\n")
	const shmLine = 6 // zero-based: "key id"
	if len(lines) <= shmLine {
		return nil // killed before it had any
	}
	var key, id int
	if _, err := fmt.Sscan(lines[shmLine], &key, &id); err != nil {
		return nil // the same
	}
	return removeSegment(id)
}
