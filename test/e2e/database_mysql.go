package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/test/servers"
)

// SchemaMySQL is SchemaPostgres for MySQL and MariaDB. Who writes numbers the messages.
const SchemaMySQL = `
CREATE TABLE outbox (
	id BIGINT PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL,
	payload JSON NOT NULL) ENGINE=InnoDB;
CREATE TABLE events (
	id BIGINT PRIMARY KEY, type VARCHAR(255) NOT NULL, topic VARCHAR(255), message_group VARCHAR(255), ` + "`key`" + ` VARCHAR(255),
	payload LONGBLOB NOT NULL, status VARCHAR(32) NOT NULL DEFAULT 'pending', attempts INT NOT NULL DEFAULT 0,
	next_attempt_at TIMESTAMP(6) NULL, last_error TEXT, delivered_at TIMESTAMP(6) NULL,
	created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY events_pending (status)) ENGINE=InnoDB;
`

// activeTransaction matches what a server's report on InnoDB says about one.
var activeTransaction = regexp.MustCompile(`(?m)^---TRANSACTION (\d+), (?:ACTIVE|COMMITTED)`)

// mySQL is a database of MySQL or MariaDB.
type mySQL struct {
	*Bed
	begins gomysql.Position // of the truth
}

func newMySQL(b *Bed, o *Options) *mySQL {
	if o.Own {
		b.My = servers.MySQL(b.tb, b.Kind, o.Settings...)
	} else {
		b.My = servers.SharedMySQL(b.tb, b.Kind)
	}
	b.DB = b.My.NewDatabase(b.tb)
	schema := o.Schema
	if schema == "" {
		schema = SchemaMySQL
	}
	for statement := range strings.SplitSeq(schema, ";\n") {
		if strings.TrimSpace(statement) != "" {
			b.ExecMySQL(statement)
		}
	}
	m := &mySQL{Bed: b}
	var err error
	if m.begins, err = m.logEnd(b.context()); err != nil {
		b.tb.Fatal(err)
	}
	return m
}

// ExecMySQL runs statements as root.
func (b *Bed) ExecMySQL(statements ...string) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.My.Exec(ctx, b.DB, statements...); err != nil {
		b.tb.Fatal(err)
	}
}

// RowsMySQL runs a query as root and returns all values of its rows as text; NULL is "".
func (b *Bed) RowsMySQL(ctx context.Context, sql string) ([][]string, error) {
	conn, err := b.My.Connect(ctx, b.DB)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r, err := conn.Execute(sql)
	if err != nil {
		return nil, fmt.Errorf("execute %.300q: %w", sql, err)
	}
	defer r.Close()
	rows := make([][]string, len(r.Values))
	for i, values := range r.Values {
		for _, v := range values {
			text := fmt.Sprint(v.Value())
			if bytes, ok := v.Value().([]byte); ok {
				text = string(bytes)
			} else if v.Value() == nil {
				text = ""
			}
			rows[i] = append(rows[i], text)
		}
	}
	return rows, nil
}

// texts is RowsMySQL for one column.
func (b *Bed) textsMySQL(ctx context.Context, sql string) ([]string, error) {
	rows, err := b.RowsMySQL(ctx, sql)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = r[0]
	}
	return texts, nil
}

// logEnd is where the binlog ends.
func (m *mySQL) logEnd(ctx context.Context) (p gomysql.Position, err error) {
	ask := "SHOW BINARY LOG STATUS"
	if m.Kind == "mariadb" {
		ask = "SHOW MASTER STATUS"
	}
	rows, err := m.RowsMySQL(ctx, ask)
	if err != nil {
		return p, err
	}
	if len(rows) != 1 {
		return p, errors.New("the server keeps no binlog")
	}
	pos, err := strconv.ParseUint(rows[0][1], 10, 32)
	return gomysql.Position{Name: rows[0][0], Pos: uint32(pos)}, err
}

func (m *mySQL) url() string      { return m.My.URL(m.DB) }
func (m *mySQL) source() []string { return nil }
func (m *mySQL) kill() error      { return m.My.Kill() }
func (m *mySQL) start() error     { return m.My.Start() }

// away: the server ends sessions when it goes down.
func (m *mySQL) away(err error) bool {
	var e *gomysql.MyError
	// Of two transactions that delete neighbours, the server may end one. An application begins it again.
	return errors.As(err, &e) && (e.Code == gomysql.ER_SERVER_SHUTDOWN || e.Code == gomysql.ER_QUERY_INTERRUPTED || e.Code == gomysql.ER_LOCK_DEADLOCK)
}

func (m *mySQL) confirmedEarly(context.Context) (string, error) { return "", nil } // nothing is confirmed

// pending implements database. The binlog shows a transaction before it is visible.
func (m *mySQL) pending(ctx context.Context) ([]int64, error) {
	before, err := m.transactions(ctx)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	for deadline := time.Now().Add(3 * time.Second); len(before) > 0 && time.Now().Before(deadline); wait(ctx, 10*time.Millisecond) {
		now, err := m.transactions(ctx)
		if err != nil {
			return nil, fmt.Errorf("list pending messages: %w", err)
		}
		before = slices.DeleteFunc(before, func(id string) bool { return !slices.Contains(now, id) })
	}
	texts, err := m.textsMySQL(ctx, `SELECT id FROM outbox UNION ALL SELECT id FROM events WHERE status <> 'delivered'
		UNION ALL SELECT CAST(CAST(message_id AS CHAR) AS SIGNED) FROM tailbox_parked WHERE state IN ('retrying', 'waiting', 'dead')`)
	if err != nil {
		return nil, fmt.Errorf("list pending messages: %w", err)
	}
	ids := make([]int64, len(texts))
	for i, text := range texts {
		if ids[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("list pending messages: %w", err)
		}
	}
	return ids, nil
}

// transactions are the ids of those that are open and have written. The view innodb_trx would not do: it is as old as ten reads
// a second, by anybody, keep it.
func (m *mySQL) transactions(ctx context.Context) ([]string, error) {
	rows, err := m.RowsMySQL(ctx, "SHOW ENGINE INNODB STATUS")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, found := range activeTransaction.FindAllStringSubmatch(rows[0][2], -1) {
		if len(found[1]) < len("281474976710656") { // of those that only read it is an address
			ids = append(ids, found[1])
		}
	}
	return ids, nil
}

func (m *mySQL) unsettled(ctx context.Context) ([]string, error) {
	return m.textsMySQL(ctx, `
		SELECT CONCAT(COUNT(*), ' rows in outbox') FROM outbox HAVING COUNT(*) > 0
		UNION ALL SELECT CONCAT(COUNT(*), ' rows of events are ', status) FROM events WHERE status <> 'delivered' GROUP BY status
		UNION ALL SELECT CONCAT(COUNT(*), ' deliveries are ', state, ': ', COALESCE(MIN(last_error), '')) FROM tailbox_parked GROUP BY state`)
}

// writer implements database.
func (m *mySQL) writer(ctx context.Context, prepare string) (writer, error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), time.Now().Add(24*time.Hour)) // of the connection's every use
	defer cancel()
	conn, err := m.My.Connect(ctx, m.DB)
	if err != nil {
		return nil, err
	}
	w := &mySQLWriter{bed: m.Bed, conn: conn}
	// Rows that two writers delete may be neighbours.
	if err := w.do("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if prepare != "" {
		if err := w.do(prepare); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return w, nil
}

type mySQLWriter struct {
	bed  *Bed
	conn *client.Conn
	dead bool
}

// do runs a statement. What is no answer of the server ends the session.
func (w *mySQLWriter) do(sql string) error {
	err := w.conn.SetDeadline(time.Now().Add(time.Minute))
	if err == nil {
		_, err = w.conn.Execute(sql)
	}
	var answer *gomysql.MyError
	if err != nil && !errors.As(err, &answer) {
		w.dead = true
	}
	if err != nil {
		return fmt.Errorf("execute %.100q: %w", sql, err)
	}
	return nil
}

func (w *mySQLWriter) broken() bool { return w.dead }
func (w *mySQLWriter) close()       { _ = w.conn.Close() } // whatever state it is in

func (w *mySQLWriter) ids(_ context.Context, n int) ([]int64, error) { return w.bed.nextIDs(n), nil }
func (w *mySQLWriter) begin(context.Context, bool) error             { return w.do("BEGIN") }
func (w *mySQLWriter) commit(context.Context) error                  { return w.do("COMMIT") }
func (w *mySQLWriter) rollback(context.Context) error                { return w.do("ROLLBACK") }

func (w *mySQLWriter) insert(_ context.Context, table string, rows []written) error {
	var sql strings.Builder
	if table == "events" {
		sql.WriteString("INSERT INTO events (id, type, topic, message_group, `key`, payload) VALUES ")
	} else {
		sql.WriteString("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES ")
	}
	quoted := func(s string) string { return "'" + gomysql.Escape(s) + "'" }
	for i := range rows {
		r := &rows[i]
		if i > 0 {
			sql.WriteString(", ")
		}
		if table == "events" {
			group := "NULL"
			if r.group != "" {
				group = quoted(r.group)
			}
			fmt.Fprintf(&sql, "(%d, 'Changed', %s, %s, %s, %s)", r.id, quoted(r.topic), group, quoted(r.key), quoted(string(r.payload)))
		} else {
			fmt.Fprintf(&sql, "(%d, 'order', %s, 'Placed', %s)", r.id, quoted(r.key), quoted(string(r.payload)))
		}
	}
	return w.do(sql.String())
}

// remove names the ids as a range, which they are: a list of many may be a scan, which would lock rows of other writers.
func (w *mySQLWriter) remove(_ context.Context, ids []int64) error {
	return w.do(fmt.Sprintf("DELETE FROM outbox WHERE id BETWEEN %d AND %d", ids[0], ids[len(ids)-1]))
}
