package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Language runs programs that write messages. Debian's packages bring its runtime and its driver of Postgres.
type Language struct {
	// Packages are Debian's, and Programs what they bring.
	Packages, Programs []string
	// Command is the program and its first arguments. The last argument is the file to run.
	Command []string
	// Has is a file that is there if the driver is.
	Has string
	// Env are variables that find the driver.
	Env []string
}

// NodePackages are what npm fetches for Node.js: the driver, because Debian's clashes with other packages, and an outbox library.
func NodePackages() []string { return []string{"pg@8.16.3", "pg-transactional-outbox@0.5.7"} }

// PythonPackages are what pip fetches for Python: an outbox library, and a driver that is new enough for it.
func PythonPackages() []string {
	return []string{"django-outbox-pattern==3.2.1", "psycopg[binary]==3.2.10"}
}

// PythonFolder is where PythonPackages are.
func PythonFolder() (string, error) {
	cache, err := CacheDir()
	return filepath.Join(cache, "python-"+strings.ReplaceAll(PythonPackages()[0], "==", "-")), err
}

// Languages are those by the extensions of their files.
func Languages() (map[string]Language, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	const jdbc = "/usr/share/java/postgresql.jar"
	modules := filepath.Join(cache, "node-"+strings.Join(NodePackages(), "+"), "node_modules")
	return map[string]Language{
		".py": {Packages: []string{"python3", "python3-psycopg", "python3-psycopg2", "python3-sqlalchemy", "python3-django"}, Programs: []string{"/usr/bin/python3"}, Command: []string{"/usr/bin/python3"},
			Has: "/usr/lib/python3/dist-packages/psycopg"},
		".js":   {Packages: []string{"nodejs", "npm"}, Programs: []string{"node", "npm"}, Command: []string{"node"}, Has: filepath.Join(modules, "pg"), Env: []string{"NODE_PATH=" + modules}},
		".java": {Packages: []string{"default-jdk-headless", "libpostgresql-jdbc-java"}, Programs: []string{"java", "javac"}, Command: []string{"java", "-cp", jdbc}, Has: jdbc},
		".rb":   {Packages: []string{"ruby", "ruby-pg"}, Programs: []string{"/usr/bin/ruby"}, Command: []string{"/usr/bin/ruby"}, Has: "/usr/share/doc/ruby-pg"},
		".php":  {Packages: []string{"php-cli", "php-pgsql"}, Programs: []string{"/usr/bin/php"}, Command: []string{"/usr/bin/php"}, Has: "/usr/share/doc/php-pgsql"},
	}, nil
}

// Missing says what a language lacks; nil if it can be used.
func (l *Language) Missing() error {
	for _, program := range l.Programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("find %s: %w; run: make servers", program, err)
		}
	}
	if _, err := os.Stat(l.Has); err != nil {
		return fmt.Errorf("find a driver of Postgres: %w; run: make servers", err)
	}
	return nil
}

// LanguageOf returns the language of a file for a test. If it cannot be had, that is as with a server.
func LanguageOf(tb testing.TB, file string) Language {
	tb.Helper()
	all, err := Languages()
	if err != nil {
		tb.Fatal(err)
	}
	l, ok := all[filepath.Ext(file)]
	if !ok {
		tb.Fatalf("%s is of no language that tests know", file)
	}
	if err := l.Missing(); err != nil {
		unavailable(tb, err)
	}
	return l
}
