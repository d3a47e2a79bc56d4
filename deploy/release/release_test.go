//go:build release

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// testVersion is the version of the releases that the test builds.
const testVersion = "0.0.1"

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// run runs a command and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), stderr.Bytes())
	}
	return out.String()
}

// built builds a release from a clone of this checkout's commit, in a folder of its own.
func built(t *testing.T) (dist string) {
	t.Helper()
	clone, dist := filepath.Join(t.TempDir(), "clone"), t.TempDir()
	run(t, "../..", "git", "clone", "-q", ".", clone)
	run(t, filepath.Join(clone, "deploy", "release"), "go", "run", ".", "-version", testVersion, "-out", dist)
	return dist
}

// TestRelease builds a release twice, and has each of its forms deliver a message.
func TestRelease(t *testing.T) {
	dist := built(t)
	sums := func(dist string) string { return run(t, dist, "cat", "SHA256SUMS") }
	if first, second := sums(dist), sums(built(t)); first != second || strings.Count(first, "\n") != 10 {
		t.Errorf("two builds differ, or are not 10 files:\n%s\n%s", first, second)
	}
	run(t, dist, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	t.Run("archive", func(t *testing.T) {
		root := t.TempDir()
		run(t, root, "tar", "-xzf", filepath.Join(dist, "tailbox_"+testVersion+"_linux_amd64.tar.gz"), "--strip-components=1")
		delivers(t, installed(filepath.Join(root, "tailbox")))
	})
	t.Run("deb", func(t *testing.T) {
		root := t.TempDir()
		for _, dir := range []string{"info", "updates", "triggers"} {
			if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"status", "available"} {
			if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		installs(t, root, func() { run(t, root, "dpkg", "--root="+root, "-i", only(t, dist, "*_amd64.deb")) },
			func() { run(t, root, "dpkg", "--root="+root, "-P", "tailbox") })
	})
	t.Run("rpm", func(t *testing.T) {
		root := t.TempDir()
		rpm := func(args ...string) {
			run(t, root, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm"}, args...)...)
		}
		installs(t, root, func() { rpm("--nodeps", "--ignorearch", "-i", only(t, dist, "*x86_64.rpm")) }, func() { rpm("-e", "tailbox") })
	})
	t.Run("image", func(t *testing.T) { testImage(t, only(t, dist, "*_image.tar")) })
	t.Run("materials", func(t *testing.T) {
		var bom struct {
			BomFormat  string
			Components []struct{ Name string }
		}
		text, err := os.ReadFile(only(t, dist, "*_sbom.cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &bom); err != nil || bom.BomFormat != "CycloneDX" || !strings.Contains(string(text), "pkg:golang/github.com/jackc/pgx/v5@v5.") {
			t.Errorf("bill of materials: %v\n%.500s", err, text)
		}
	})
}

// testImage has podman read the image, and runs its program in its root as its unprivileged user. It needs no container runtime, which not every machine that
// runs tests allows.
func testImage(t *testing.T, archive string) {
	store := t.TempDir()
	podman := func(args ...string) string {
		return strings.TrimSpace(run(t, store, "podman", append([]string{"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs"}, args...)...))
	}
	image := podman("pull", "-q", "oci-archive:"+archive)
	if user := podman("image", "inspect", "--format", "{{.User}}", image); user != "65532:65532" {
		t.Errorf("the image runs as %s", user)
	}
	root := podman("image", "mount", image)
	t.Cleanup(func() {
		cmd := exec.Command("podman", "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs", "image", "umount", "--all")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("unmount the image: %v\n%s", err, out)
		}
	})
	if text := run(t, root, "cat", "etc/ssl/certs/ca-certificates.crt"); strings.Count(text, "BEGIN CERTIFICATE") < 100 {
		t.Errorf("the image has %d authorities", strings.Count(text, "BEGIN CERTIFICATE"))
	}
	delivers(t, func(ctx context.Context, config, url string, args ...string) *exec.Cmd {
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, "etc", "tailbox"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "etc", "tailbox", "tailbox.yaml"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, "chroot", append([]string{"--userspec=65532:65532", root, "/tailbox"}, args...)...)
		cmd.Env = []string{"DATABASE_URL=" + url, "TAILBOX_CONFIG=/etc/tailbox/tailbox.yaml"}
		return cmd
	})
}

// only is the one file of a pattern.
func only(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("files %s: %v %v, want one", pattern, found, err)
	}
	return found[0]
}

// installs wants a package to bring a program that delivers, and to leave nothing behind when it is removed but the manager's own files.
func installs(t *testing.T, root string, install, remove func()) {
	t.Helper()
	before := below(t, root)
	install()
	for _, name := range []string{"usr/bin/tailbox", "usr/lib/systemd/system/tailbox.service", "usr/share/man/man1/tailbox.1.gz", "etc/tailbox"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	unit := run(t, root, "cat", "usr/lib/systemd/system/tailbox.service")
	if !strings.Contains(unit, "ExecStart=/usr/bin/tailbox run") {
		t.Errorf("the unit starts another program:\n%s", unit)
	}
	delivers(t, installed(filepath.Join(root, "usr/bin/tailbox")))
	remove()
	after := below(t, root)
	for name := range before {
		delete(after, name)
	}
	if len(after) > 0 {
		t.Errorf("left behind: %v", slices.Sorted(maps.Keys(after)))
	}
}

// below are the files below a folder without the package managers' own.
func below(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, "/var/l") {
			all[path] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A launcher makes a command of tailbox with a configuration and the address of a database.
type launcher func(ctx context.Context, config, url string, args ...string) *exec.Cmd

// installed launches a program of this machine.
func installed(program string) launcher {
	return func(ctx context.Context, config, url string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "TAILBOX_CONFIG="+config, "DATABASE_URL="+url)
		return cmd
	}
}

// delivers wants a program to say its version, to find a Postgres well, and to deliver a message.
func delivers(t *testing.T, launch launcher) {
	t.Helper()
	pg := servers.Postgres(t, "17", servers.WithSetting("track_commit_timestamp", "on"))
	config, url := filepath.Join(t.TempDir(), "tailbox.yaml"), pg.URL(pg.NewDatabase(t))
	if err := os.WriteFile(config, []byte("source: {kind: postgres, url: \"${DATABASE_URL}\"}\nsinks: {out: {kind: stdout}}\nadmin: {listen: \"off\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	must := func(args ...string) string {
		t.Helper()
		cmd := launch(t.Context(), config, url, args...)
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("tailbox %s: %v\n%s%s", strings.Join(args, " "), err, out.Bytes(), stderr.Bytes())
		}
		return out.String()
	}
	if got := must("version"); !strings.HasPrefix(got, "tailbox "+testVersion+" commit ") {
		t.Errorf("version: %s", got)
	}
	must("init")
	must("check")
	must("send", "--type", "OrderPaid", "--topic", "order", "--key", "42", `{"order": 42}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	relay := launch(ctx, config, url, "run")
	relay.Cancel = func() error { return relay.Process.Signal(os.Interrupt) }
	out, err := relay.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, `"type":"OrderPaid"`) {
		t.Errorf("delivered %q, %v", line, err)
	}
	cancel()
	_ = relay.Wait() // it was told to stop
}
