package polling

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store/check"
)

// backEvery is how often it is looked whether the numbers began anew, as after a TRUNCATE.
const backEvery = 30 * time.Second

// Problems looks for what keeps a table from being polled in order. For others than the fatal ones a row may come late. index
// is the one along the sequence column.
func Problems(ctx context.Context, s *server.Conn, t *catalog.Table) (index string, fatal, other []check.Reason, err error) {
	name, column := quote.Table(&t.Table), t.Columns.Seq
	col, ok := t.Column(column)
	const numbered = " BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
	if column == "" || !ok {
		return "", []check.Reason{{What: fmt.Sprintf("table %s has no sequence column, which source.read: poll goes by", t),
			Fix: "ALTER TABLE " + name + " ADD COLUMN seq" + numbered + " UNIQUE, and name it under source.tables.columns.seq"}}, nil, nil
	}
	rows, err := s.Texts(ctx, "SELECT LOWER(extra) FROM information_schema.columns WHERE table_schema = "+quote.Text(t.Schema)+
		" AND table_name = "+quote.Text(t.Name)+" AND column_name = "+quote.Text(column))
	if err != nil {
		return "", nil, nil, fmt.Errorf("look up column %s of %s: %w", column, t, err)
	}
	if len(rows) == 0 || !strings.Contains(rows[0][0], "auto_increment") || col.Kind != catalog.KindInt {
		return "", []check.Reason{{What: fmt.Sprintf("column %s of table %s is not filled by AUTO_INCREMENT, so nothing tells which numbers are still to come", column, t),
			Fix: "ALTER TABLE " + name + " MODIFY " + quote.Ident(column) + numbered}}, nil, nil
	}
	if !strings.EqualFold(t.Engine, "InnoDB") {
		fatal = append(fatal, check.Reason{What: fmt.Sprintf("table %s has the engine %s, whose transactions the server does not list", t, t.Engine),
			Fix: "ALTER TABLE " + name + " ENGINE = InnoDB"})
	}
	rows, err = s.Texts(ctx, "SELECT s.index_name, s.non_unique = 0 AND NOT EXISTS (SELECT 1 FROM information_schema.statistics m "+
		"WHERE m.table_schema = s.table_schema AND m.table_name = s.table_name AND m.index_name = s.index_name AND m.seq_in_index > 1) AS one "+
		"FROM information_schema.statistics s WHERE s.table_schema = "+quote.Text(t.Schema)+" AND s.table_name = "+quote.Text(t.Name)+
		" AND s.seq_in_index = 1 AND s.index_type = 'BTREE' AND NOT "+catalog.HiddenIndex(s.Server)+" AND s.column_name = "+quote.Text(column)+" ORDER BY one DESC, s.index_name LIMIT 1")
	if err != nil {
		return "", nil, nil, fmt.Errorf("look up indexes of %s: %w", t, err)
	}
	fix := "ALTER TABLE " + name + " ADD UNIQUE KEY (" + quote.Ident(column) + ")"
	switch {
	case len(rows) == 0:
		fatal = append(fatal, check.Reason{What: fmt.Sprintf("table %s has no index that begins with %s: each look would read all of it", t, column), Fix: fix})
	case rows[0][1] != "1":
		other = append(other, check.Reason{What: fmt.Sprintf("column %s of table %s is not unique: of rows with one number all but the first come late", column, t), Fix: fix})
	}
	if len(rows) > 0 {
		index = rows[0][0]
	}
	right, err := MayListTransactions(ctx, s)
	if err != nil {
		return "", nil, nil, err
	}
	if right != nil {
		fatal = append(fatal, *right)
	}
	several, err := server.SeveralWriters(ctx, s)
	if several {
		other = append(other, check.Reason{What: "the server is one of several that take writes: rows that are written at another one may come late, out of order",
			Fix: "let all writers of the outbox use this server"})
	}
	return index, fatal, other, err
}

// MayListTransactions looks for the right PROCESS, without which nobody else's transactions are seen.
func MayListTransactions(ctx context.Context, s *server.Conn) (*check.Reason, error) {
	_, err := s.Texts(ctx, "SELECT 1 FROM information_schema.innodb_trx LIMIT 1")
	switch code := server.Code(err); {
	case err == nil, code == server.CodeCannotConvert:
		return nil, nil
	case code != server.CodeNeedPrivilege && code != server.CodeAccessDenied:
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	account, err := server.Account(ctx, s)
	if err != nil {
		return nil, err
	}
	return &check.Reason{What: "account " + account + " may not list the transactions of others, so nothing tells whether a number that is missing is still to come",
		Fix: "GRANT PROCESS ON *.* TO " + account}, nil
}

// A Table implements poll.Session.
type Table struct {
	cfg   *server.Config
	conn  *server.Conn
	table *catalog.Table
	rows  *catalog.Reader
	seq   string // the column
	// from and number are SQL, rowsSQL the beginning of the query for rows, pending their condition.
	from, number, rowsSQL, pending string
	// lookedBack is when it was last looked whether the numbers began anew.
	lookedBack time.Time
	looks      looks
}

// openTable looks the table up, and refuses one that cannot be polled.
func openTable(ctx context.Context, c *server.Config, s *server.Conn) (*Table, error) {
	if len(c.Tables) != 1 {
		return nil, fmt.Errorf("poll: %d tables, whose sequences have no common order: give each a pipeline of its own: %w", len(c.Tables), source.ErrStop)
	}
	values, err := server.Variables(ctx, s, "read_only", "super_read_only")
	if err != nil {
		return nil, err
	}
	if server.ReadOnly(values) {
		return nil, server.ErrReadOnly
	}
	info, err := catalog.Describe(ctx, s, &c.Tables[0])
	if err != nil {
		return nil, err
	}
	index, fatal, _, err := Problems(ctx, s, info)
	if err != nil {
		return nil, err
	}
	if len(fatal) > 0 {
		if _, err := catalog.Describe(ctx, s, &c.Tables[0]); err != nil { // it may have been renamed between two look-ups
			return nil, err
		}
		return nil, fmt.Errorf("poll: %s: %s: %w", fatal[0].What, fatal[0].Fix, source.ErrStop)
	}
	rows, err := catalog.NewReader(info, c.MaxMessage)
	if err != nil {
		return nil, err
	}
	t := &Table{cfg: c, conn: s, table: info, rows: rows, seq: info.Columns.Seq, looks: newLooks()}
	t.number = "t." + quote.Ident(t.seq)
	t.from = " FROM " + rows.From() + " t FORCE INDEX (" + quote.Ident(index) + ") WHERE " + t.number
	if pending := info.PendingCondition("t"); pending != "" {
		t.pending = " AND " + pending
	}
	t.rowsSQL = "SELECT " + rows.SelectList("t") + ", CAST(" + t.number + " AS CHAR), CAST(UTC_TIMESTAMP(6) AS CHAR)"
	return t, nil
}

// String implements poll.Session.
func (t *Table) String() string { return t.table.String() }

// Close implements poll.Session.
func (t *Table) Close(ctx context.Context) error { return t.conn.Close(ctx) }

// Last implements poll.Session. The server does not tell the series.
func (t *Table) Last(ctx context.Context) (n uint64, series string, err error) {
	rows, err := t.conn.Texts(ctx, "SELECT COALESCE(auto_increment, 0) FROM information_schema.tables WHERE table_schema = "+quote.Text(t.table.Schema)+
		" AND table_name = "+quote.Text(t.table.Name))
	if err != nil {
		return 0, "", fmt.Errorf("ask for the last number of %s: %w", t.table, err)
	}
	if len(rows) == 0 {
		return 0, "", fmt.Errorf("ask for the last number of %s: the table does not exist: %w", t.table, source.ErrNoTable)
	}
	next, err := strconv.ParseUint(rows[0][0], 10, 64)
	if err != nil {
		return 0, "", fmt.Errorf("ask for the last number of %s: %w", t.table, err)
	}
	return max(next, 1) - 1, "", nil
}

// WentBack implements poll.Session.
func (t *Table) WentBack(at, last uint64) string {
	return fmt.Sprintf("the checkpoint is at %d, but table %s is at %d: it was truncated or made anew, or the server restored from an older state",
		at, t.table, last)
}

// Numbers implements poll.Table.
func (t *Table) Numbers(ctx context.Context, after uint64, limit int) (*poll.Numbers, error) {
	if now := time.Now(); now.Sub(t.lookedBack) >= backEvery {
		last, _, err := t.Last(ctx)
		if err != nil {
			return nil, err
		}
		if last < after {
			return nil, fmt.Errorf("%s: %w", t.WentBack(after, last), source.ErrGap)
		}
		t.lookedBack = now
	}
	rows, err := t.conn.Texts(ctx, fmt.Sprintf("SELECT %s%s > %d ORDER BY %[1]s LIMIT %[4]d", t.number, t.from, after, limit))
	if err != nil {
		return nil, fmt.Errorf("list numbers of %s: %w", t.table, err)
	}
	n := &poll.Numbers{List: make([]uint64, len(rows)), More: len(rows) == limit}
	for i, r := range rows {
		if n.List[i], err = strconv.ParseUint(r[0], 10, 64); err != nil {
			return nil, fmt.Errorf("list numbers of %s: %w", t.table, err)
		}
	}
	return n, nil
}

// Rows implements poll.Table. What is not wanted any more is read to its end, since the session goes on.
func (t *Table) Rows(ctx context.Context, after, last uint64, limit int, show func(poll.Row) (bool, error)) error {
	more := true
	var refused error
	err := t.conn.Stream(ctx, fmt.Sprintf("%s%s > %d AND %s <= %d%s ORDER BY %[4]s LIMIT %[7]d", t.rowsSQL, t.from, after, t.number, last, t.pending, limit),
		func(row []mysql.FieldValue) (err error) {
			if !more {
				return nil
			}
			w := t.rows.Width()
			number, err := strconv.ParseUint(string(row[w].AsString()), 10, 64)
			if err != nil {
				return fmt.Errorf("read a number: %w", err)
			}
			at, err := catalog.ParseTime(string(row[w+1].AsString()))
			if err != nil {
				return fmt.Errorf("read the server's time: %w", err)
			}
			more, refused = show(poll.Row{Number: number, CommitTime: at, Read: func() (*outbox.Message, error) { return t.rows.Message(row) }})
			return refused
		})
	if refused != nil {
		return refused
	}
	return server.Wrap("read rows of "+t.table.String(), err)
}
