package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// openMySQL and openMariaDB let root in from this machine over TCP, whatever its addresses
// resolve to, without a password, and nobody nameless.
const (
	openMySQL = `CREATE USER root@'127.0.0.1';
GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;
`
	openMariaDB = `DELETE FROM mysql.global_priv WHERE User = '';
`
)

// mysqlTemplate returns a data directory of the program that never served, made
// by the first process that asks and kept in the cache.
func mysqlTemplate(kind string, p *mysqlProgram) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	template := filepath.Join(cache, "data-"+kind+"-"+p.version)
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}
	dir, err := tempDir("tailbox-myinit-")
	if err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.Mkdir(data, 0o700), own(data)); err != nil {
		return "", errors.Join(fmt.Errorf("make data directory: %w", err), os.RemoveAll(dir))
	}
	if kind == "mariadb" {
		err = bootstrapMariaDB(p, dir, data)
	} else {
		err = initializeMySQL(p, dir, data)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return template, errors.Join(publishTree(data, template), os.RemoveAll(dir))
}

// initializeMySQL makes a data directory.
func initializeMySQL(p *mysqlProgram, dir, data string) error {
	open := filepath.Join(dir, "open.sql")
	if err := errors.Join(os.WriteFile(open, []byte(openMySQL), 0o600), own(open)); err != nil {
		return fmt.Errorf("write first statements: %w", err)
	}
	cmd := p.command("--initialize-insecure", "--datadir="+data, "--secure-file-priv=NULL", "--init-file="+open,
		"--innodb-redo-log-capacity=16M", "--skip-log-bin")
	return runServerTool(cmd, dir)
}

// bootstrapMariaDB makes a data directory as mariadb-install-db does. The script
// itself would run the server with the machine's libraries.
func bootstrapMariaDB(p *mysqlProgram, dir, data string) error {
	var sql bytes.Buffer
	sql.WriteString("CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n")
	for _, name := range []string{"mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data",
		"maria_add_gis_sp_bootstrap", "mysql_sys_schema"} {
		text, err := os.ReadFile(filepath.Join(p.tree, "usr", "share", "mysql", name+".sql"))
		if err != nil {
			return fmt.Errorf("read statements of a new MariaDB: %w", err)
		}
		for line := range bytes.Lines(text) {
			if !bytes.Contains(line, []byte("@current_hostname")) { // rows for the machine's name
				sql.Write(line)
			}
		}
	}
	sql.WriteString(openMariaDB)
	cmd := p.command("--bootstrap", "--datadir="+data, "--enforce-storage-engine=", "--innodb-log-file-size=8M",
		"--max-allowed-packet=8M", "--net-buffer-length=16K", "--log-warnings=0")
	cmd.Stdin = &sql
	return runServerTool(cmd, dir)
}

// runServerTool runs a server's program that ends by itself.
func runServerTool(cmd *exec.Cmd, home string) error {
	demote(cmd, home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("make data directory with %s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
