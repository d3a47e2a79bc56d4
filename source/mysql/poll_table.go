package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
)

// backEvery is how often it is looked whether the numbers began anew, as after a TRUNCATE.
const backEvery = 30 * time.Second

// A flaw is why a table cannot be polled, or should not be, and what mends it.
type flaw struct{ what, cure string }

// pollFlaws looks for what keeps a table from being polled in order. For others than the fatal ones a row may come late. index
// is the one along the sequence column.
func pollFlaws(ctx context.Context, s *session, t *tableInfo) (index string, fatal, other []flaw, err error) {
	name, column := tableName(&t.Table), t.Columns.Seq
	col, ok := t.column(column)
	const numbered = " BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
	if column == "" || !ok {
		return "", []flaw{{fmt.Sprintf("table %s has no sequence column, which source.read: poll goes by", t),
			"ALTER TABLE " + name + " ADD COLUMN seq" + numbered + " UNIQUE, and name it under source.tables.columns.seq"}}, nil, nil
	}
	rows, err := s.texts(ctx, "SELECT LOWER(extra) FROM information_schema.columns WHERE table_schema = "+quoteLiteral(t.Schema)+
		" AND table_name = "+quoteLiteral(t.Name)+" AND column_name = "+quoteLiteral(column))
	if err != nil {
		return "", nil, nil, fmt.Errorf("look up column %s of %s: %w", column, t, err)
	}
	if len(rows) == 0 || !strings.Contains(rows[0][0], "auto_increment") || col.kind != kindInt {
		return "", []flaw{{fmt.Sprintf("column %s of table %s is not filled by AUTO_INCREMENT, so nothing tells which numbers are still to come", column, t),
			"ALTER TABLE " + name + " MODIFY " + quoteIdent(column) + numbered}}, nil, nil
	}
	if !strings.EqualFold(t.engine, "InnoDB") {
		fatal = append(fatal, flaw{fmt.Sprintf("table %s has the engine %s, whose transactions the server does not list", t, t.engine),
			"ALTER TABLE " + name + " ENGINE = InnoDB"})
	}
	rows, err = s.texts(ctx, "SELECT s.index_name, s.non_unique = 0 AND NOT EXISTS (SELECT 1 FROM information_schema.statistics m "+
		"WHERE m.table_schema = s.table_schema AND m.table_name = s.table_name AND m.index_name = s.index_name AND m.seq_in_index > 1) AS one "+
		"FROM information_schema.statistics s WHERE s.table_schema = "+quoteLiteral(t.Schema)+" AND s.table_name = "+quoteLiteral(t.Name)+
		" AND s.seq_in_index = 1 AND s.index_type = 'BTREE' AND NOT "+hiddenIndex(s.server)+" AND s.column_name = "+quoteLiteral(column)+" ORDER BY one DESC, s.index_name LIMIT 1")
	if err != nil {
		return "", nil, nil, fmt.Errorf("look up indexes of %s: %w", t, err)
	}
	cure := "ALTER TABLE " + name + " ADD UNIQUE KEY (" + quoteIdent(column) + ")"
	switch {
	case len(rows) == 0:
		fatal = append(fatal, flaw{fmt.Sprintf("table %s has no index that begins with %s: each look would read all of it", t, column), cure})
	case rows[0][1] != "1":
		other = append(other, flaw{fmt.Sprintf("column %s of table %s is not unique: of rows with one number all but the first come late", column, t), cure})
	}
	if len(rows) > 0 {
		index = rows[0][0]
	}
	right, err := mayListTransactions(ctx, s)
	if err != nil {
		return "", nil, nil, err
	}
	if right != nil {
		fatal = append(fatal, *right)
	}
	several, err := severalWriters(ctx, s)
	if several {
		other = append(other, flaw{"the server is one of several that take writes: rows that are written at another one may come late, out of order",
			"let all writers of the outbox use this server"})
	}
	return index, fatal, other, err
}

// mayListTransactions looks for the right PROCESS, without which nobody else's transactions are seen.
func mayListTransactions(ctx context.Context, s *session) (*flaw, error) {
	_, err := s.texts(ctx, "SELECT 1 FROM information_schema.innodb_trx LIMIT 1")
	switch code := errorCode(err); {
	case err == nil, code == codeCannotConvert:
		return nil, nil
	case code != codeNeedPrivilege && code != codeAccessDenied:
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	account, err := accountOf(ctx, s)
	if err != nil {
		return nil, err
	}
	return &flaw{"account " + account + " may not list the transactions of others, so nothing tells whether a number that is missing is still to come",
		"GRANT PROCESS ON *.* TO " + account}, nil
}

// A pollTable implements poll.Table. Its session is used for nothing else.
type pollTable struct {
	cfg   *config
	conn  *session
	table *tableInfo
	rows  *rowReader
	seq   string // the column
	// from and number are SQL, rowsSQL the beginning of the query for rows, pending their condition.
	from, number, rowsSQL, pending string
	// lookedBack is when it was last looked whether the numbers began anew.
	lookedBack time.Time
	looks      looks
}

// openTable looks the table up, and refuses one that cannot be polled.
func openTable(ctx context.Context, c *config, s *session) (*pollTable, error) {
	if len(c.Tables) != 1 {
		return nil, fmt.Errorf("poll: %d tables, whose sequences have no common order: give each a pipeline of its own: %w", len(c.Tables), source.ErrStop)
	}
	values, err := variables(ctx, s, "read_only", "super_read_only")
	if err != nil {
		return nil, err
	}
	if on(values["read_only"]) || on(values["super_read_only"]) {
		return nil, errors.New("the server is read-only: it is a replica, or being switched over: source.url must lead to the primary")
	}
	info, err := describeTable(ctx, s, &c.Tables[0])
	if err != nil {
		return nil, err
	}
	index, fatal, _, err := pollFlaws(ctx, s, info)
	if err != nil {
		return nil, err
	}
	if len(fatal) > 0 {
		return nil, fmt.Errorf("poll: %s: %s: %w", fatal[0].what, fatal[0].cure, source.ErrStop)
	}
	rows, err := rowReaderOf(info, c.MaxMessage)
	if err != nil {
		return nil, err
	}
	t := &pollTable{cfg: c, conn: s, table: info, rows: rows, seq: info.Columns.Seq, looks: newLooks()}
	t.number = "t." + quoteIdent(t.seq)
	t.from = " FROM " + rows.from() + " t FORCE INDEX (" + quoteIdent(index) + ") WHERE " + t.number
	if pending := info.pendingCondition("t"); pending != "" {
		t.pending = " AND " + pending
	}
	t.rowsSQL = "SELECT " + rows.list("t") + ", CAST(" + t.number + " AS CHAR), CAST(UTC_TIMESTAMP(6) AS CHAR)"
	return t, nil
}

// last is the last number that was drawn.
func (t *pollTable) last(ctx context.Context) (uint64, error) {
	rows, err := t.conn.texts(ctx, "SELECT COALESCE(auto_increment, 0) FROM information_schema.tables WHERE table_schema = "+quoteLiteral(t.table.Schema)+
		" AND table_name = "+quoteLiteral(t.table.Name))
	if err != nil {
		return 0, fmt.Errorf("ask for the last number of %s: %w", t.table, err)
	}
	if len(rows) == 0 {
		return 0, fmt.Errorf("ask for the last number of %s: the table does not exist: %w", t.table, source.ErrNoTable)
	}
	next, err := strconv.ParseUint(rows[0][0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("ask for the last number of %s: %w", t.table, err)
	}
	return max(next, 1) - 1, nil
}

// wentBack says why a position means nothing any more.
func (t *pollTable) wentBack(at, last uint64) string {
	return fmt.Sprintf("the checkpoint is at %d, but table %s is at %d: it was truncated or made anew, or the server restored from an older state",
		at, t.table, last)
}

// Numbers implements poll.Table.
func (t *pollTable) Numbers(ctx context.Context, after uint64, limit int) (*poll.Numbers, error) {
	if now := time.Now(); now.Sub(t.lookedBack) >= backEvery {
		last, err := t.last(ctx)
		if err != nil {
			return nil, err
		}
		if last < after {
			return nil, fmt.Errorf("%s: %w", t.wentBack(after, last), source.ErrGap)
		}
		t.lookedBack = now
	}
	rows, err := t.conn.texts(ctx, fmt.Sprintf("SELECT %s%s > %d ORDER BY %[1]s LIMIT %[4]d", t.number, t.from, after, limit))
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
func (t *pollTable) Rows(ctx context.Context, after, last uint64, limit int, show func(poll.Row) (bool, error)) error {
	more := true
	var refused error
	err := t.conn.stream(ctx, fmt.Sprintf("%s%s > %d AND %s <= %d%s ORDER BY %[4]s LIMIT %[7]d", t.rowsSQL, t.from, after, t.number, last, t.pending, limit),
		func(row []mysql.FieldValue) (err error) {
			if !more {
				return nil
			}
			w := t.rows.width()
			number, err := strconv.ParseUint(string(row[w].AsString()), 10, 64)
			if err != nil {
				return fmt.Errorf("read a number: %w", err)
			}
			at, err := parseTime(string(row[w+1].AsString()))
			if err != nil {
				return fmt.Errorf("read the server's time: %w", err)
			}
			more, refused = show(poll.Row{Number: number, CommitTime: at, Read: func() (*outbox.Message, error) { return t.rows.message(row) }})
			return refused
		})
	if refused != nil {
		return refused
	}
	return wrap("read rows of "+t.table.String(), err)
}

// pollBarrier makes the highest number that can be seen a barrier.
func (s *stateStore) pollBarrier(ctx context.Context, out *checkpoint.PendingRows) error {
	b := s.batch()
	for _, t := range s.tables.order {
		if t.Columns.Seq == "" {
			return fmt.Errorf("read the highest number of %s: it has no sequence column: %w", t, source.ErrStop)
		}
		b.each(func(r row) error {
			out.Commit = max(out.Commit, r.unsigned(0))
			return nil
		}, "SELECT COALESCE(MAX("+quoteIdent(t.Columns.Seq)+"), 0) FROM "+t.sql)
	}
	if err := s.send(ctx, b); err != nil {
		return storeFault("read the highest number", err)
	}
	out.Barrier = strconv.FormatUint(out.Commit, 10)
	return nil
}
