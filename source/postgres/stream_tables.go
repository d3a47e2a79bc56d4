package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// A catalog is what the server said about the configured tables and the publication at one time. Immutable.
type catalog struct {
	tables    []*tableInfo
	byName    map[string]*tableInfo // schema.name, quoted
	byOID     map[uint32]*tableInfo // of tables, their partitions and children
	published published
}

// published are all tables of the publication, quoted, with the columns that it publishes; none where the server does not tell (14).
type published map[string][]string

func (p published) holds(table string) bool {
	_, ok := p[table]
	return ok
}

// readCatalog reads the catalog, and checks that the log holds the inserts into all configured tables. What an operator has to mend
// is an error that matches source.ErrStop.
func (c *Config) readCatalog(ctx context.Context, conn *pgconn.PgConn) (*catalog, error) {
	cat := &catalog{byName: map[string]*tableInfo{}, byOID: map[uint32]*tableInfo{}}
	viaRoot, err := c.readPublication(ctx, conn)
	if err != nil {
		return nil, err
	}
	if cat.published, err = c.published(ctx, conn); err != nil {
		return nil, err
	}
	for i := range c.Tables {
		info, err := describeTable(ctx, conn, &c.Tables[i])
		if err != nil {
			return nil, err
		}
		name := tableName(&info.Table)
		if err := c.inLog(info, viaRoot, cat.published); err != nil {
			return nil, err
		}
		cat.tables = append(cat.tables, info)
		cat.byName[name] = info
		for _, oid := range info.oids() {
			cat.byOID[oid] = info
		}
	}
	return cat, nil
}

// inLog refuses a table whose rows are not in the log, or not whole.
func (c *Config) inLog(t *tableInfo, viaRoot bool, published published) error {
	if err := c.publishable(t, viaRoot); err != nil {
		return err
	}
	name := tableName(&t.Table)
	if !published.holds(name) {
		return fmt.Errorf("check publication %q: it does not hold table %s (dropped, renamed or removed?), so the log lacks its rows: "+
			"ALTER PUBLICATION %s ADD TABLE %s, or tailbox init: %w", c.Publication, name, quoteIdent(c.Publication), name, source.ErrStop)
	}
	for _, column := range t.generated(published) {
		return t.generatedColumn(column)
	}
	return c.childrenHeld(t, published)
}

// publishable refuses a table that the publication cannot hold as it is, or as the publication is.
func (c *Config) publishable(t *tableInfo, viaRoot bool) error {
	switch {
	case !t.table:
		return fmt.Errorf("check table %s: it is no table, so it is not in the log: name the table itself in source.tables: %w", tableName(&t.Table), source.ErrStop)
	case !t.permanent:
		return fmt.Errorf("check table %s: it is unlogged or temporary, so it is not in the log: ALTER TABLE %[1]s SET LOGGED: %w",
			tableName(&t.Table), source.ErrStop)
	case t.partitioned && !viaRoot:
		return fmt.Errorf("check publication %q: it publishes the partitions of %s as tables of their own: "+
			"ALTER PUBLICATION %s SET (publish_via_partition_root = true): %w", c.Publication, tableName(&t.Table), quoteIdent(c.Publication), source.ErrStop)
	}
	return nil
}

// generated are the columns that messages are made of, and that the log does not hold, because they are generated.
func (t *tableInfo) generated(published published) (names []string) {
	for _, name := range columns.Configured(&t.Table) {
		if c, ok := t.column(name); ok && c.generated && !slices.Contains(published[tableName(&t.Table)], name) {
			names = append(names, name)
		}
	}
	return names
}

func (c *Config) readPublication(ctx context.Context, conn *pgconn.PgConn) (viaRoot bool, err error) {
	rows, err := queryText(ctx, conn, "SELECT pubinsert, pubviaroot FROM pg_catalog.pg_publication WHERE pubname = "+
		quoteLiteral(c.Publication))
	switch {
	case err != nil:
		return false, fmt.Errorf("look up publication %q: %w", c.Publication, err)
	case len(rows) == 0:
		return false, fmt.Errorf("look up publication %q: it does not exist: run tailbox init: %w", c.Publication, source.ErrStop)
	case rows[0][0] != "t":
		return false, fmt.Errorf("check publication %q: it does not publish inserts: ALTER PUBLICATION %s SET (publish = 'insert'): %w",
			c.Publication, quoteIdent(c.Publication), source.ErrStop)
	}
	return rows[0][1] == "t", nil
}

// published lists what the publication holds.
func (c *Config) published(ctx context.Context, conn *pgconn.PgConn) (published, error) {
	// As JSON: 14 has no column lists.
	rows, err := queryText(ctx, conn, "SELECT schemaname, tablename, coalesce(to_jsonb(p) -> 'attnames', 'null') FROM pg_catalog.pg_publication_tables p WHERE pubname = "+
		quoteLiteral(c.Publication))
	if err != nil {
		return nil, fmt.Errorf("look up tables of publication %q: %w", c.Publication, err)
	}
	list := published{}
	for _, r := range rows {
		var names []string
		if err := json.Unmarshal([]byte(r[2]), &names); err != nil {
			return nil, fmt.Errorf("look up tables of publication %q: columns: %w", c.Publication, err)
		}
		list[quoteIdent(r[0])+"."+quoteIdent(r[1])] = names
	}
	return list, nil
}

// textOnly tells whether a column that messages are made of has no binary form that is known.
func (cat *catalog) textOnly() bool {
	for _, t := range cat.tables {
		for _, name := range columns.Configured(&t.Table) {
			if c, ok := t.column(name); ok && c.kind.textOnly() {
				return true
			}
		}
	}
	return false
}

// kind is the kind of a type that a column of a configured table has now, and the modifier that a domain gives it, or -1.
func (cat *catalog) kind(typeOID uint32) (k kind, modifier int, ok bool) {
	if k, ok := builtinKind(typeOID); ok {
		return k, -1, true
	}
	for _, t := range cat.tables {
		for _, c := range t.columns {
			if c.typeOID == typeOID {
				return c.kind, c.modifier, true
			}
		}
	}
	return kindOther, -1, false
}

const (
	// watchInterval is how often the log's end is asked for, checkInterval how often the catalog is read: a table that was
	// dropped or renamed leaves the publication without a word in the log.
	watchInterval = 5 * time.Second
	checkInterval = time.Minute
)

// A watch looks at the server on an ordinary connection, beside the stream. It is safe for concurrent use.
type watch struct {
	cfg   *Config
	every time.Duration // between checks of the catalog
	// encoding is that of the database, once the log is about to be read.
	encoding encoding
	// logEnd is where the server's log ended lately.
	logEnd atomic.Uint64
	// confirmed is the source's, gate what of it the server may hear, and wake makes it hear.
	confirmed *atomic.Uint64
	gate      standbyGate
	wake      func()

	// awaySince is since when standbys are away that the server waits for; awayTold: the log says so.
	awaySince time.Time
	awayTold  bool

	mu   sync.Mutex
	conn *pgx.Conn
	cat  *catalog
}

// catalog is the catalog as it was read last.
func (w *watch) catalog() *catalog {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cat
}

// refresh reads and checks the catalog.
func (w *watch) refresh(ctx context.Context) (*catalog, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	cat, err := w.cfg.readCatalog(ctx, w.conn.PgConn())
	if err != nil {
		return nil, err
	}
	w.cat = cat
	return cat, nil
}

// slot waits for the slot to be free, at the same server as a replication connection: an address may lead to another one a
// moment later.
func (w *watch) slot(ctx context.Context, server *serverInfo) (*slotState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	rows, err := queryText(ctx, w.conn.PgConn(), "SELECT system_identifier FROM pg_catalog.pg_control_system()")
	if err != nil {
		return nil, fmt.Errorf("identify server: %w", err)
	}
	if rows[0][0] != server.systemID {
		return nil, fmt.Errorf("identify server: two connections to the same address led to servers %s and %s", server.systemID, rows[0][0])
	}
	return w.cfg.inactiveSlot(ctx, w.conn.PgConn())
}

// kind finds the kind of a type, and the modifier that a domain gives it, or -1.
func (w *watch) kind(ctx context.Context, typeOID uint32) (k kind, modifier int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, modifier, ok := w.cat.kind(typeOID); ok {
		return k, modifier, nil
	}
	if err := w.connect(ctx); err != nil {
		return kindOther, -1, err
	}
	return describeType(ctx, w.conn.PgConn(), typeOID)
}

// translate turns what the server sends as it was written, in the database's encoding, into UTF-8. What is no text is left as it is.
func (w *watch) translate(ctx context.Context, content []byte) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	rows, err := queryText(ctx, w.conn.PgConn(), fmt.Sprintf("SELECT pg_catalog.convert('\\x%x', %s, 'UTF8')", content, quoteLiteral(string(w.encoding))))
	switch {
	case strings.HasPrefix(sqlState(err), "22"):
		return content, nil
	case err != nil:
		return nil, fmt.Errorf("translate a logical message: %w", err)
	}
	text, err := hex.DecodeString(strings.TrimPrefix(rows[0][0], `\x`))
	if err != nil {
		return nil, fmt.Errorf("translate a logical message: %w", err)
	}
	return text, nil
}

func (w *watch) connect(ctx context.Context) (err error) {
	if w.conn != nil {
		return nil
	}
	if w.conn, err = w.cfg.connect(ctx); err != nil {
		return err
	}
	_, err = w.conn.Exec(ctx, noTimeouts) // it says nothing for long
	return err
}

// close ends the connection. That it only asked questions is why an error means nothing.
func (w *watch) close(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = closeConn(ctx, w.conn)
	}
}

// run watches until ctx ends (nil) or something is wrong.
func (w *watch) run(ctx context.Context) error {
	checked := time.Now()
	for {
		if err := w.look(ctx); err != nil {
			return ignoreDone(ctx, err)
		}
		every := watchInterval
		if w.gate.passed.Load() != math.MaxUint64 {
			every = standbyEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(every, w.every)):
		}
		if time.Since(checked) < w.every {
			continue
		}
		if _, err := w.refresh(ctx); err != nil {
			return ignoreDone(ctx, err)
		}
		checked = time.Now()
	}
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// look asks where the log ends, and how far the standbys have it that the server waits for.
func (w *watch) look(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return err
	}
	confirmed := pgrepl.LSN(w.confirmed.Load()) // before the questions
	rows, err := queryText(ctx, w.conn.PgConn(), "SELECT pg_catalog.pg_current_wal_flush_lsn()")
	if err != nil {
		return fmt.Errorf("ask for the log's end: %w", err)
	}
	end, err := pgrepl.ParseLSN(rows[0][0])
	if err != nil {
		return fmt.Errorf("ask for the log's end: %w", err)
	}
	w.logEnd.Store(uint64(end))
	list, err := w.cfg.standbys(ctx, w.conn.PgConn())
	if err != nil {
		return err
	}
	w.tell(list, time.Now())
	if w.gate.look(confirmed, end, list) && w.wake != nil {
		w.wake()
	}
	return nil
}
