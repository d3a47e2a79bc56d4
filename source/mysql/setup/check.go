package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/schema"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/stream"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
)

// A checker asks what is to be asked of the database.
type checker struct {
	prepare.Checker
	cfg  server.Config
	conn *server.Conn
	// tables are those that exist; own tells that the relay's are there.
	tables []*catalog.Table
	own    bool
}

// Check looks at everything that the relay needs of the database, and returns all that it finds. It changes nothing. An error
// means that it could not go on looking; what was found before is returned with it.
func Check(ctx context.Context, cfg server.Config) (findings []check.Finding, err error) {
	c := &checker{cfg: cfg}
	for i, text := range []string{cfg.URL, cfg.LockURL} {
		key := [...]string{"source.url", "source.lock_url"}[i]
		if a, err := server.ParseURL(text); err == nil {
			c.Note(a.Transport(key).Warn("tls=true, with tls-ca if the authority is your own, in " + key))
		}
	}
	if c.conn, err = cfg.Connect(ctx, cfg.URL); err != nil {
		c.Add(check.Problem, "correct source.url or source.kind, start the server, or create the account", "%v", err)
		return c.Findings, nil
	}
	defer func() { err = errors.Join(err, c.conn.Close(ctx)) }()
	if _, err := c.conn.Exec(ctx, "SET lock_wait_timeout = 2"); err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	err = prepare.Ask(ctx, c.questions())
	return c.Findings, err
}

func (c *checker) questions() []prepare.Question {
	at := prepare.At
	if c.cfg.Poll {
		return []prepare.Question{at("server", c.writable), at("lock", c.lock), at("tables tailbox_*", c.ownTables), at("outbox tables", c.outboxTables),
			at("sequence", c.polled), at("first start", c.firstStart)}
	}
	return []prepare.Question{at("connections", c.connections), at("settings", c.settings), at("databases in the log", c.databases), at("privileges", c.rights),
		at("lock", c.lock), at("tables tailbox_*", c.ownTables), at("outbox tables", c.outboxTables), at("first start", c.firstStart)}
}

// primary reports a server that takes no writes.
func (c *checker) primary(values map[string]string) {
	if server.ReadOnly(values) {
		c.Add(check.Problem, "let source.url lead to the primary", "the server is read-only: it is a replica, or being switched over")
	}
}

// settings looks at what the binlog needs.
func (c *checker) settings(ctx context.Context) error {
	names := []string{"read_only", "super_read_only", "binlog_expire_logs_seconds", "expire_logs_days", "binlog_row_value_options", "gtid_strict_mode"}
	need := server.Requirements(c.conn.Server.MariaDB)
	for _, r := range need {
		names = append(names, r.Name)
	}
	values, err := server.Variables(ctx, c.conn, names...)
	if err != nil {
		return err
	}
	c.primary(values)
	for _, r := range need {
		if value, ok := values[r.Name]; ok && !slices.Contains(r.Good, value) {
			c.Add(r.Level, r.Fix, "%s is %s: %s", r.Name, value, r.What)
		}
	}
	if c.conn.Server.MariaDB && values["gtid_strict_mode"] == "OFF" {
		c.Add(check.Info, "SET GLOBAL gtid_strict_mode = ON (also in the configuration)",
			"gtid_strict_mode is OFF: after a failover nothing holds that the servers' logs have the same order")
	}
	const threeDays = 3 * 24 * 3600
	seconds, _ := strconv.Atoi(values["binlog_expire_logs_seconds"])
	if seconds > 0 && seconds < threeDays {
		c.Add(check.Warning, "SET GLOBAL binlog_expire_logs_seconds = 604800 (also in the configuration; on RDS call mysql.rds_set_configuration('binlog retention hours', 168))",
			"the server purges its binlog after %d s: a relay that is down for longer has to sweep the tables", seconds)
	}
	return nil
}

// connectionsNeeded is how many a pipeline has at most.
const connectionsNeeded = 5

// connections looks whether the account may have as many as a pipeline needs: the session shows the account's own limit or, where it has
// none, the server's, which MariaDB does not hold administrators to.
func (c *checker) connections(ctx context.Context) error {
	rows, err := c.conn.Texts(ctx, "SELECT @@session.max_user_connections, @@global.max_user_connections")
	if err != nil {
		return err
	}
	limit, global := rows[0][0], rows[0][1]
	if n, err := strconv.Atoi(limit); err != nil || n <= 0 || n >= connectionsNeeded {
		return nil
	}
	account, err := server.Account(ctx, c.conn)
	if err != nil {
		return err
	}
	fix := "ALTER USER " + account + " WITH MAX_USER_CONNECTIONS 0"
	if limit == global {
		fix = "ALTER USER " + account + " WITH MAX_USER_CONNECTIONS 10, or SET GLOBAL max_user_connections = 0 (also in the configuration)"
		if c.conn.Server.MariaDB {
			exempt, err := c.conn.Texts(ctx, "SELECT 1 FROM information_schema.user_privileges WHERE privilege_type IN ('SUPER', 'CONNECTION ADMIN') AND grantee = "+quote.Text(account))
			if err != nil || len(exempt) > 0 {
				return err
			}
		}
	}
	c.Add(check.Problem, fix, "account %s may have %s connections at a time (max_user_connections), and a pipeline needs %d", account, limit, connectionsNeeded)
	return nil
}

// rights looks whether the account may read the log.
func (c *checker) rights(ctx context.Context) error {
	account, err := server.Account(ctx, c.conn)
	if err != nil {
		return err
	}
	_, err = c.conn.Texts(ctx, "SHOW BINARY LOGS")
	switch code := server.Code(err); {
	case code == server.CodeNeedPrivilege || code == server.CodeAccessDenied:
		c.Add(check.Problem, "GRANT "+binlogPrivileges(c.conn.Server.MariaDB)[1]+" ON *.* TO "+account, "account %s may not ask about the log", account)
	case err != nil && code == 0:
		return err
	}
	refused, err := stream.Try(ctx, c.cfg)
	switch code := server.Code(refused); {
	case refused == nil:
		return err
	case code == server.CodeNeedPrivilege || code == server.CodeAccessDenied:
		c.Add(check.Problem, "GRANT REPLICATION SLAVE ON *.* TO "+account, "account %s may not read the log", account)
	case ctx.Err() != nil:
		return refused
	case !errors.Is(refused, source.ErrStop): // what stops it are settings, which were found already
		c.Add(check.Problem, "let source.url lead to the primary, past proxies that know no replication", "the log cannot be read: %v", refused)
	}
	return nil
}

// lock looks whether the store's session can hold a lock.
func (c *checker) lock(ctx context.Context) (err error) {
	conn := c.conn
	if c.cfg.LockURL != "" {
		if conn, err = c.cfg.Connect(ctx, c.cfg.LockURL); err != nil {
			c.Add(check.Problem, "correct source.lock_url", "%v", err)
			return nil
		}
		defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	}
	rows, err := conn.Texts(ctx, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	if rows[0][0] != strconv.FormatUint(uint64(conn.Client.GetConnectionID()), 10) {
		c.Add(check.Problem, "set source.lock_url to a direct connection", "the connection goes through a proxy that shares sessions, so tailbox cannot hold its lock there")
	}
	if conn != c.conn {
		if err := c.oneServer(ctx, conn); err != nil {
			return err
		}
	}
	several, err := server.SeveralWriters(ctx, conn)
	if several {
		c.Add(check.Warning, "let source.url of each relay of this pipeline lead to one and the same member, unless that is gone",
			"the server is one of several that take writes, and the pipeline's lock is one of a single server: relays of two members throw each other out")
	}
	return err
}

// oneServer reports a source.lock_url that leads to another server: tailbox would settle messages there that it reads here.
func (c *checker) oneServer(ctx context.Context, lock *server.Conn) error {
	read, err := server.SourceID(ctx, c.conn)
	if err != nil {
		return err
	}
	held, err := server.SourceID(ctx, lock)
	if err == nil && held != read {
		c.Add(check.Problem, "let source.lock_url lead to the server of source.url", "source.lock_url leads to server %s, and source.url to server %s", held, read)
	}
	return err
}

// ownTables looks at the relay's tables.
func (c *checker) ownTables(ctx context.Context) error {
	n := schema.NamesIn(c.cfg.Schema)
	lacks := 0
	for i, g := range ownGrants() {
		missing, err := schema.Missing(ctx, c.conn, c.cfg.Schema, g.table)
		if err != nil {
			return err
		}
		if missing {
			c.Add(check.Problem, "run tailbox init", "table %s is missing, or hidden from this account", g.table)
			return nil
		}
		lacking, err := c.tryWrites(ctx, []string{n.Checkpoint, n.Parked, n.Request}[i], []string{"pipeline"}, g.privileges)
		if err != nil {
			return err
		}
		lacks += lacking
	}
	if c.own = lacks == 0; !c.own {
		return nil
	}
	state, err := schema.Of(ctx, c.conn, c.cfg.Schema)
	if err != nil {
		return err
	}
	c.Note(state.Finding(schema.Migrations()))
	return nil
}

// tryWrites finds missing rights by trying what changes nothing: the server checks them first. It returns how many are missing. Columns are those that
// are written. What is tried for one right asks for no other.
func (c *checker) tryWrites(ctx context.Context, table string, columns, rights []string) (lacks int, err error) {
	account, err := server.Account(ctx, c.conn)
	if err != nil {
		return 0, err
	}
	var same []string
	for _, name := range columns {
		same = append(same, quote.Ident(name)+" = DEFAULT")
	}
	tries := map[string]string{
		"SELECT": "SELECT 1 FROM " + table + " WHERE FALSE", "UPDATE": "UPDATE " + table + " SET " + strings.Join(same, ", ") + " WHERE FALSE",
		"DELETE": "DELETE FROM " + table + " WHERE FALSE", "INSERT": "INSERT INTO " + table + " (" + quote.Ident(columns[0]) + ") SELECT '' FROM DUAL WHERE FALSE",
	}
	for _, right := range rights {
		_, err := c.conn.Exec(ctx, tries[right])
		switch code := server.Code(err); {
		case err == nil:
		case code == 1142 || code == 1143 || code == 1044:
			lacks++
			c.Add(check.Problem, "GRANT "+right+" ON "+table+" TO "+account, "account %s has no %s on %s", account, right, table)
		case code == 0:
			return lacks, err
		}
	}
	return lacks, nil
}

// started reports whether a position was ever taken.
func (c *checker) started(ctx context.Context) (bool, error) {
	if !c.own {
		return false, nil
	}
	rows, err := c.conn.Texts(ctx, "SELECT 1 FROM "+schema.NamesIn(c.cfg.Schema).Checkpoint+" WHERE pipeline = "+quote.Text(c.cfg.Pipeline)+" AND resume IS NOT NULL")
	return len(rows) > 0, err
}

// firstStart tells what the first start would do with rows that are there.
func (c *checker) firstStart(ctx context.Context) error {
	if started, err := c.started(ctx); err != nil || started {
		return err
	}
	for _, t := range c.tables {
		where, fix := t.PendingRows(c.cfg.Start, source.Known{First: true})
		if c.InvalidWords(&t.Table) {
			continue
		}
		left := where == "" && c.cfg.Start == "now"
		if left {
			where = "TRUE"
		} else if where == "" {
			continue
		}
		rows, err := c.conn.Texts(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+quote.Table(&t.Table)+" t WHERE "+where+" LIMIT 100001) n")
		if server.Code(err) == 1142 || server.Code(err) == 1143 {
			continue // found already
		}
		if err != nil {
			return err
		}
		switch n := rows[0][0]; {
		case n == "0":
		case left:
			f := check.LeftAlone(&t.Table, n+" rows")
			c.Note(&f)
		case fix != "":
			c.Add(check.Problem, fix, "table %s has rows (%s), and no column tells which of them are pending", t, n)
		default:
			c.Add(check.Info, "", "the first start delivers what is pending in table %s: %s rows", t, n)
		}
	}
	return nil
}

// prerequisites tells everything that would keep Init, or the first position after it, from coming to an end, before
// anything is created. Where the pipeline has a checkpoint already there is nothing left that could.
func prerequisites(ctx context.Context, cfg server.Config, conn *server.Conn) error {
	c := &checker{cfg: cfg, conn: conn}
	missing, err := schema.Missing(ctx, conn, cfg.Schema, "tailbox_checkpoint")
	if err != nil {
		return err
	}
	if c.own = !missing; c.own {
		rows, err := conn.Texts(ctx, "SELECT 1 FROM "+schema.NamesIn(cfg.Schema).Checkpoint+" WHERE pipeline = "+quote.Text(cfg.Pipeline)+" AND resume IS NOT NULL")
		if err != nil || len(rows) > 0 {
			return err
		}
	}
	questions := []prepare.Question{c.settings, c.databases, c.rights, c.lock, c.applicationTables, c.firstStart}
	if cfg.Poll {
		questions = []prepare.Question{c.writable, c.lock, c.applicationTables, c.polled, c.firstStart}
	}
	return c.Prerequisites(ctx, "nothing was created yet, because something is missing", questions...)
}

// applicationTables finds the tables that are there, and those that are missing and not ours to make.
func (c *checker) applicationTables(ctx context.Context) error {
	for i := range c.cfg.Tables {
		t := &c.cfg.Tables[i]
		info, err := catalog.Describe(ctx, c.conn, t)
		switch {
		case err == nil:
			c.tables = append(c.tables, info)
			c.words(info)
		case !errors.Is(err, source.ErrStop):
			return err
		case !schema.OwnShape(t.Shape):
			c.Foreign(t, quote.Table(t))
		}
	}
	return nil
}
