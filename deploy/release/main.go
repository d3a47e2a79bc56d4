package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "the `version`, such as 0.1.0")
	out := flag.String("out", "dist", "the `folder` for the files")
	flag.Parse()
	if err := build(*version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is one version, built from the commit that is checked out.
type release struct {
	root, out, work string // the checkout, the folder for the files, and one for what lies between
	version, commit string
	time            time.Time // of the commit, which all files have
	common          []file    // what archives and packages hold beside the binary
}

// A target is what a binary is built for.
type target struct{ os, arch string }

func targets() []target {
	return []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
}

var semantic = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

func build(version, out string) (err error) {
	if !semantic.MatchString(version) {
		return fmt.Errorf("%q is no version such as 0.1.0, which packages need: run make release VERSION=0.1.0", version)
	}
	r := &release{version: version}
	if r.root, err = filepath.Abs(filepath.Join("..", "..")); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "release-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := r.readCommit(); err != nil {
		return err
	}
	if err := r.readCommon(); err != nil {
		return err
	}
	binaries := map[target]string{}
	for _, t := range targets() {
		if binaries[t], err = r.binary(t); err != nil {
			return err
		}
		if err := r.archive(t, binaries[t]); err != nil {
			return err
		}
		if t.os != "linux" {
			continue
		}
		for _, kind := range []string{"deb", "rpm"} {
			if err := r.pack(kind, t.arch, binaries[t]); err != nil {
				return err
			}
		}
	}
	if err := r.materials(binaries[targets()[0]]); err != nil {
		return err
	}
	if err := r.image(binaries); err != nil {
		return err
	}
	return r.sums()
}

// readCommit reads the commit and its time.
func (r *release) readCommit() error {
	text, err := r.run(nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	r.commit, r.time = hash, time.Unix(n, 0).UTC()
	return err
}

// readCommon reads the pages, and has the program write its manual and completions.
func (r *release) readCommon() error {
	host, err := r.binary(target{})
	if err != nil {
		return err
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		r.common = append(r.common, file{name: name, text: text, mode: 0o644})
	}
	for _, made := range []struct {
		name string
		args []string
	}{
		{"tailbox.1", []string{"man"}}, {"completions/tailbox.bash", []string{"completion", "bash"}},
		{"completions/_tailbox", []string{"completion", "zsh"}}, {"completions/tailbox.fish", []string{"completion", "fish"}},
	} {
		text, err := r.run(nil, host, made.args...)
		if err != nil {
			return err
		}
		r.common = append(r.common, file{name: made.name, text: []byte(text), mode: 0o644})
	}
	return nil
}

// binary builds the program for a target, and returns its file. The zero target is this machine.
func (r *release) binary(t target) (path string, err error) {
	path = filepath.Join(r.work, "tailbox_"+t.os+"_"+t.arch)
	env := []string{"CGO_ENABLED=0", "GOWORK=off"}
	if t.os != "" {
		env = append(env, "GOOS="+t.os, "GOARCH="+t.arch)
	}
	_, err = r.run(env, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false",
		"-ldflags", "-s -w -X main.version="+r.version+" -X main.commit="+r.commit, "-o", path, "./cmd/tailbox")
	return path, err
}

// run runs a program in the checkout and returns what it prints.
func (r *release) run(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), env...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out.String(), nil
}

// sums writes the checksums of all files.
func (r *release) sums() error {
	names, err := filepath.Glob(filepath.Join(r.out, "tailbox*"))
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names { // Glob sorts them
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(data), filepath.Base(name))
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}
