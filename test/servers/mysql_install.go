package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// MySQLKinds are the servers of MySQL's protocol that can be had here: mysql is
// 9.7, mariadb is 10.11.
func MySQLKinds() []string { return []string{"mysql", "mariadb"} }

// MySQLTree is the directory below [CacheDir] that a kind's Debian packages are
// unpacked into, libraries included: MySQL's need a newer libc than the
// machine's own. Nothing in there is installed, so no root is needed.
func MySQLTree(kind string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	switch kind {
	case "mysql":
		return filepath.Join(cache, "mysql-9"), nil
	case "mariadb":
		return filepath.Join(cache, "mariadb-10.11"), nil
	}
	return "", fmt.Errorf("find %q: no such kind here; have %v", kind, MySQLKinds())
}

// mysqlProgram is a server's program and what it is started with.
type mysqlProgram struct {
	tree string
	// prefix runs the program by the loader and the libraries of its tree.
	prefix []string
	// version, such as 9.7.4-2.
	version string
}

// findMySQL finds a kind's program, or says what installs it.
func findMySQL(kind string) (*mysqlProgram, error) {
	tree, err := MySQLTree(kind)
	if err != nil {
		return nil, err
	}
	name := map[string]string{"mysql": "mysqld", "mariadb": "mariadbd"}[kind]
	program := filepath.Join(tree, "usr", "sbin", name)
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("find %s: %w; run: make servers", kind, err)
	}
	var loaders, libraries []string
	for _, dir := range []string{"lib", "usr/lib"} {
		found, err := filepath.Glob(filepath.Join(tree, dir, "*-linux-gnu*"))
		if err != nil {
			return nil, fmt.Errorf("find libraries of %s: %w", kind, err)
		}
		libraries = append(libraries, found...)
		for _, lib := range found {
			found, err := filepath.Glob(filepath.Join(lib, "ld-linux*.so.*"))
			if err != nil {
				return nil, fmt.Errorf("find loader of %s: %w", kind, err)
			}
			loaders = append(loaders, found...)
		}
	}
	if len(loaders) == 0 {
		return nil, fmt.Errorf("find loader of %s: none in %s; remove it and run: make servers", kind, tree)
	}
	libraries = append(libraries, filepath.Join(tree, "usr", "lib", "mysql", "private"))
	p := &mysqlProgram{tree: tree, prefix: []string{loaders[0], "--library-path", strings.Join(libraries, ":"), program}}
	out, err := exec.Command(p.prefix[0], append(slices.Clone(p.prefix[1:]), "--no-defaults", "--version")...).Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	// "/path/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))"
	_, rest, ok := strings.Cut(string(out), "Ver ")
	if p.version, _, _ = strings.Cut(rest, " "); !ok || p.version == "" {
		return nil, fmt.Errorf("read version of %s: got %q", program, out)
	}
	return p, nil
}

// command runs the program with --no-defaults and args.
func (p *mysqlProgram) command(args ...string) *exec.Cmd {
	share := filepath.Join(p.tree, "usr", "share", "mysql")
	all := slices.Concat(p.prefix[1:], []string{"--no-defaults", "--basedir=" + filepath.Join(p.tree, "usr"),
		"--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets"),
		"--plugin-dir=" + filepath.Join(p.tree, "usr", "lib", "mysql", "plugin")}, args)
	return exec.Command(p.prefix[0], all...)
}
