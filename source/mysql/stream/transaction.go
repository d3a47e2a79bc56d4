package stream

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// States of a transaction.
const (
	txStarted  = iota // its first event will tell what it is
	txRows            // rows, up to a commit
	txPrepared        // rows, up to the end of its preparation (XA)
)

// A transaction is what the log has under one GTID, up to its end: a transaction of rows, or one statement that is in none, such as DDL. A transaction
// of rows is written as a whole once it commits; so its rows may be emitted before its end is read, with three exceptions: XA, where it
// is prepared; and transactions that also changed tables without transactions, where ROLLBACK (or ROLLBACK TO a savepoint)
// may stand behind rows. So what of a transaction fits into one batch is not emitted before its end.
type transaction struct {
	open    bool
	state   int
	begin   binlog.Position // before its first event
	ordinal uint64
	gtid    binlog.GTID
	origin  []byte
	at      time.Time
	// n is how much of its rows was passed, in units of two bytes.
	n          uint64
	first      int // where its messages begin in the batch
	emitted    int // messages of it that were emitted already
	moved      bool
	skip       bool
	xid        string
	savepoints map[string]int
}

// openTransaction begins a transaction.
func (st *stream) openTransaction(h *binlog.Header, e *binlog.GTID, state int) error {
	if err := st.dropTransaction("without an end"); err != nil {
		return err
	}
	begin := st.cur
	begin.Pos -= uint64(h.Size)
	tx := &st.tx
	*tx = transaction{open: true, state: state, begin: begin, ordinal: st.cur.Ordinal(), gtid: *e, origin: append(tx.origin[:0], e.Origin...),
		at: e.Committed, first: st.out.batch.Len(), skip: begin.Before(st.skip)}
	tx.gtid.Origin, st.originServer = tx.origin, h.ServerID
	return nil
}

// dropTransaction ends a transaction that has no end: it was not committed.
func (st *stream) dropTransaction(why string) error {
	if !st.tx.open {
		return nil
	}
	st.undoAll(why)
	st.tx.open = false
	return nil
}

// undo takes messages of the open transaction back, from the n-th on. What was emitted already is beyond that.
func (st *stream) undo(n int, why string) {
	tx := &st.tx
	if n < tx.emitted {
		st.count("rolled back after it was emitted", tx.emitted-n)
		st.cfg.Logger.Error("rows of a large transaction were emitted, and then rolled back", "binlog", st.cur.String(), "messages", tx.emitted-n, "reason", why)
		n = tx.emitted
	}
	st.out.batch.Cut(tx.first + n - tx.emitted)
	if p := st.held(); p != nil && n < len(p.messages) {
		clear(p.messages[n:])
		p.messages = p.messages[:n] // its bytes go on counting, until it has ended
	}
}

// undoAll takes all messages of the open transaction back: it is not even prepared.
func (st *stream) undoAll(why string) {
	st.undo(0, why)
	if st.held() != nil {
		st.xa.forget(st.tx.xid)
	}
}

// size is the number of messages of the open transaction.
func (st *stream) size() int {
	n := st.tx.emitted + st.out.batch.Len() - st.tx.first
	if p := st.held(); p != nil {
		n += len(p.messages)
	}
	return n
}

// commit ends a transaction: everything in it is committed.
func (st *stream) commit(ctx context.Context) error {
	tx := &st.tx
	if !tx.open {
		return fmt.Errorf("read the binlog at %s: a transaction ends without a beginning: %w", st.cur, binlog.ErrProtocol)
	}
	tx.open = false
	switch {
	case len(tx.gtid.Origin) > 0:
		st.gtids.Add(tx.gtid.Origin, tx.gtid.Number)
	case st.gtids.MariaDB && tx.gtid.Number > 0:
		st.gtids.SetDomain(tx.gtid.Domain, st.originServer, tx.gtid.Number)
	}
	st.out.moved = st.out.moved || tx.moved
	return st.transactionEnd(ctx)
}

// query handles a statement.
func (st *stream) query(ctx context.Context, schema, q []byte) error {
	q = bytes.TrimSpace(q)
	tx := &st.tx
	if !tx.open {
		return st.outside(ctx)
	}
	if tx.state != txStarted {
		return st.inside(ctx, schema, q)
	}
	switch {
	case string(q) == "BEGIN":
		tx.state = txRows
		return nil
	case hasWord(q, "XA START"), hasWord(q, "XA BEGIN"):
		tx.state = txPrepared
		st.beginPrepared(xidText(q))
		return nil
	case hasWord(q, "XA COMMIT"):
		return st.commitPrepared(ctx, xidText(q))
	case hasWord(q, "XA ROLLBACK"):
		st.xa.forget(xidText(q))
		return st.commit(ctx)
	}
	if err := st.statement(ctx, schema, q); err != nil {
		return err
	}
	tx.moved = true
	return st.commit(ctx)
}

// inside handles a statement of a transaction.
func (st *stream) inside(ctx context.Context, schema, q []byte) error {
	switch {
	case string(q) == "COMMIT":
		return st.commit(ctx)
	case string(q) == "ROLLBACK":
		st.undoAll("ROLLBACK")
		return st.commit(ctx)
	case hasWord(q, "SAVEPOINT"):
		if st.tx.savepoints == nil {
			st.tx.savepoints = map[string]int{}
		}
		st.tx.savepoints[savepointName(q)] = st.size()
		return nil
	case hasWord(q, "ROLLBACK TO"):
		size, err := st.savepoint(savepointName(q))
		if err != nil {
			return err
		}
		st.undo(size, "ROLLBACK TO")
		return nil
	case hasWord(q, "XA END"), string(q) == "BEGIN":
		return nil
	}
	return st.statement(ctx, schema, q)
}

// savepoint is how much of the open transaction there was when a savepoint was set; nothing if none was. The server compares their names by a
// collation, so a name that none has may be another spelling of one of them. If no message came between them, as in a transaction of other tables, it does not
// matter of which.
func (st *stream) savepoint(name string) (size int, err error) {
	known := st.tx.savepoints
	if size, ok := known[name]; ok || len(known) == 0 {
		return size, nil
	}
	sizes := slices.Sorted(maps.Values(known))
	if sizes[0] != sizes[len(sizes)-1] {
		return 0, fmt.Errorf("read the binlog at %s: a transaction was rolled back to savepoint %q, and none has a name that is written so: "+
			"to go on without it: tailbox accept-gap --unreadable --why …: %w", st.cur, name, source.ErrStop)
	}
	return sizes[0], nil
}

// savepointName is the name in a statement about a savepoint, as the server writes it: the last word where it is not quoted.
func savepointName(q []byte) string {
	if i := bytes.IndexAny(q, "`\""); i >= 0 {
		q = q[i:]
	} else if i := bytes.LastIndexByte(q, ' '); i >= 0 {
		q = q[i+1:]
	}
	return strings.ToLower(sqltext.Unquote(q))
}

// hasWord reports whether a statement begins with words, whatever their case.
func hasWord(q []byte, words string) bool {
	return len(q) > len(words) && bytes.EqualFold(q[:len(words)], []byte(words)) && (q[len(words)] <= ' ' || q[len(words)] == '(' || q[len(words)] == '\'' || q[len(words)] == '`')
}

// xidText is the id in a statement about an XA transaction, as the server writes it.
func xidText(q []byte) string {
	for range 2 {
		i := bytes.IndexByte(q, ' ')
		if i < 0 {
			return ""
		}
		q = bytes.TrimSpace(q[i:])
	}
	if i := bytes.IndexByte(q, ' '); i >= 0 {
		q = q[:i] // ONE PHASE
	}
	return strings.ToLower(string(q))
}

func (st *stream) count(why string, n int) { st.ignored[why] += n }

func (st *stream) countIgnored() {
	for why, n := range st.ignored {
		if st.cfg.Ignored != nil {
			st.cfg.Ignored(why, n)
		}
	}
	clear(st.ignored)
}
