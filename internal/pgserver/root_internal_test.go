//go:build unix

package pgserver

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestUsableRunsNothingAsRoot: a folder of programs may be another user's, so not even their version is asked for as root.
func TestUsableRunsNothingAsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	dir, err := os.MkdirTemp("/tmp", "tailbox-usable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		script := fmt.Sprintf("#!/bin/sh\nid -u >> %s/uids\necho 'initdb (PostgreSQL) 17.6'\n", dir)
		// A process that another test forks meanwhile would hold the script open for writing, and Linux starts no such file.
		syscall.ForkLock.RLock()
		err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	if !usable(t.Context(), dir) {
		t.Error("not usable")
	}
	if uids, err := os.ReadFile(filepath.Join(dir, "uids")); err != nil || string(uids) != "65534\n65534\n" {
		t.Errorf("ran as %q, %v", uids, err)
	}
}

// TestLogIsNoLink: the unprivileged user, whose folder it is, cannot have root write to, or read, another file.
func TestLogIsNoLink(t *testing.T) {
	t.Parallel()
	s := &Server{dir: t.TempDir()}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(s.dir, "log")); err != nil {
		t.Fatal(err)
	}
	if f, err := s.openLog(os.O_CREATE | os.O_TRUNC | os.O_WRONLY); err == nil {
		_ = f.Close()
		t.Error("the link was followed")
	}
	if text := s.log(); text == "kept" {
		t.Error("the link was read")
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "kept" {
		t.Errorf("the target holds %q, %v", data, err)
	}
}
