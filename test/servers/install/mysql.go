package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tailbox/tailbox/test/servers"
)

// debianKeyring signs every release of Debian, sid included.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// installMySQL unpacks a kind's server with all its libraries from Debian's
// packages into the cache, if it is missing. Nothing is installed in the
// machine's own system, so it needs no root, and the release of Debian does not
// matter: only MySQL's package in sid is of the version we want.
func installMySQL(cache, kind string) (err error) {
	tree, err := servers.MySQLTree(kind)
	if err != nil {
		return err
	}
	if _, err := os.Stat(tree); err == nil {
		fmt.Printf("%s: %s\n", kind, tree)
		return nil
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("fetch %s: %w; elsewhere than on Debian set TAILBOX_TEST_%s_URL", kind, err, strings.ToUpper(kind))
		}
	}
	fmt.Printf("%s: fetching\n", kind)
	work, err := os.MkdirTemp(cache, "install-")
	if err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	release, name := "sid", "mysql-server-core"
	if kind == "mariadb" {
		release, name = "bookworm", "mariadb-server-core"
	}
	packages, err := downloadDebian(work, release, name)
	if err != nil {
		return err
	}
	made := filepath.Join(work, "tree")
	for _, p := range packages {
		if base := filepath.Base(p); strings.HasPrefix(base, "perl") || strings.HasPrefix(base, "libperl") {
			continue // for scripts that we do not run
		}
		if out, err := exec.Command("dpkg-deb", "-x", p, made).CombinedOutput(); err != nil {
			return fmt.Errorf("unpack %s: %w\n%s", p, err, out)
		}
	}
	// The server runs as another user when we are root.
	if out, err := exec.Command("chmod", "-R", "a+rX", made).CombinedOutput(); err != nil {
		return fmt.Errorf("open %s to all: %w\n%s", made, err, out)
	}
	if err := os.Rename(made, tree); err != nil {
		return fmt.Errorf("install %s: %w", kind, err)
	}
	fmt.Printf("%s: %s\n", kind, tree)
	return nil
}

// downloadDebian fetches a package and all that it depends on, from an apt that
// knows nothing of what is installed and shares nothing with the machine's own
// but its configuration.
func downloadDebian(work, release, name string) ([]string, error) {
	mirror, err := debianMirror()
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return nil, fmt.Errorf("make apt's directories: %w", err)
		}
	}
	sources, status, conf := filepath.Join(work, "sources.list"), filepath.Join(work, "status"), filepath.Join(work, "apt.conf")
	files := map[string]string{
		sources: fmt.Sprintf("deb [signed-by=%s] %s %s main\n", debianKeyring, mirror, release),
		status:  "",
		conf: "Dir::Etc::sourcelist \"" + sources + "\";\nDir::Etc::sourceparts \"/dev/null\";\nDir::State \"" + work +
			"\";\nDir::State::lists \"" + work + "/lists\";\nDir::State::status \"" + status + "\";\nDir::Cache \"" + work +
			"/cache\";\nAPT::Sandbox::User \"\";\nAPT::Install-Recommends \"false\";\nAcquire::Languages \"none\";\n" +
			// Images of containers tidy the machine's own cache here.
			"#clear APT::Update::Post-Invoke;\n#clear DPkg::Post-Invoke;\nDebug::NoLocking \"true\";\n",
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("configure apt: %w", err)
		}
	}
	for _, args := range [][]string{{"update"}, {"--yes", "--download-only", "install", name}} {
		cmd := exec.Command("apt-get", append([]string{"-q", "-q", "-c", conf}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("run apt-get %s for %s of Debian %s: %w; behind a mirror set TAILBOX_DEBIAN_URL\n%s",
				args[0], name, release, err, out)
		}
	}
	packages, err := filepath.Glob(filepath.Join(work, "cache", "archives", "*.deb"))
	if err == nil && len(packages) == 0 {
		err = errors.New("got no package")
	}
	if err != nil {
		return nil, fmt.Errorf("download %s of Debian %s: %w", name, release, err)
	}
	return packages, nil
}

// debianMirror is where the machine itself has its Debian packages from, or $TAILBOX_DEBIAN_URL.
func debianMirror() (string, error) {
	if mirror := os.Getenv("TAILBOX_DEBIAN_URL"); mirror != "" {
		return mirror, nil
	}
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", fmt.Errorf("ask apt for its mirror: %w; or set TAILBOX_DEBIAN_URL", err)
	}
	for line := range strings.Lines(string(out)) {
		// Security updates and the like are archives of their own.
		if mirror := strings.TrimSuffix(strings.TrimSpace(line), "/"); strings.HasSuffix(mirror, "/debian") {
			return mirror, nil
		}
	}
	return "", errors.New("ask apt for its mirror: it has none of Debian; set TAILBOX_DEBIAN_URL")
}
