package stream

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// States of a group.
const (
	groupStarted  = iota // its first event will tell what it is
	groupRows            // a transaction
	groupPrepared        // a transaction that ends in being prepared (XA)
)

// A group is a transaction, or one statement that is none, in the log: from its GTID to its end. A transaction of rows is
// written as a whole once it commits; so its rows may be emitted before its end is read, with three exceptions: XA, where it
// is prepared; and transactions that also changed tables without transactions, where ROLLBACK (or ROLLBACK TO a savepoint)
// may stand behind rows. So what of a group fits into one batch is not emitted before its end.
type group struct {
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

// openGroup begins a group.
func (st *stream) openGroup(h *binlog.Header, e *binlog.GTID, state int) error {
	if err := st.dropGroup("without an end"); err != nil {
		return err
	}
	begin := st.cur
	begin.Pos -= uint64(h.Size)
	g := &st.group
	*g = group{open: true, state: state, begin: begin, ordinal: st.cur.Ordinal(), gtid: *e, origin: append(g.origin[:0], e.Origin...),
		at: e.Committed, first: st.out.batch.Len(), skip: begin.Before(st.skip)}
	g.gtid.Origin, st.originServer = g.origin, h.ServerID
	return nil
}

// dropGroup ends a group that has no end: its transaction was not committed.
func (st *stream) dropGroup(why string) error {
	if !st.group.open {
		return nil
	}
	st.undoAll(why)
	st.group.open = false
	return nil
}

// undo takes messages of the open group back, from the n-th on. What was emitted already is beyond that.
func (st *stream) undo(n int, why string) {
	g := &st.group
	if n < g.emitted {
		st.count("rolled back after it was emitted", g.emitted-n)
		st.cfg.Logger.Error("rows of a large transaction were emitted, and then rolled back", "binlog", st.cur.String(), "messages", g.emitted-n, "reason", why)
		n = g.emitted
	}
	st.out.batch.Cut(g.first + n - g.emitted)
	if p := st.held(); p != nil && n < len(p.messages) {
		clear(p.messages[n:])
		p.messages = p.messages[:n] // its bytes go on counting, until it has ended
	}
}

// undoAll takes all messages of the open group back: it is not even prepared.
func (st *stream) undoAll(why string) {
	st.undo(0, why)
	if st.held() != nil {
		st.xa.forget(st.group.xid)
	}
}

// size is the number of messages of the open group.
func (st *stream) size() int {
	n := st.group.emitted + st.out.batch.Len() - st.group.first
	if p := st.held(); p != nil {
		n += len(p.messages)
	}
	return n
}

// commit ends a group: everything in it is committed.
func (st *stream) commit(ctx context.Context) error {
	g := &st.group
	if !g.open {
		return fmt.Errorf("read the binlog at %s: a transaction ends without a beginning: %w", st.cur, binlog.ErrProtocol)
	}
	g.open = false
	switch {
	case len(g.gtid.Origin) > 0:
		st.gtids.Add(g.gtid.Origin, g.gtid.Number)
	case st.gtids.MariaDB && g.gtid.Number > 0:
		st.gtids.SetDomain(g.gtid.Domain, st.originServer, g.gtid.Number)
	}
	st.out.moved = st.out.moved || g.moved
	return st.transactionEnd(ctx)
}

// query handles a statement.
func (st *stream) query(ctx context.Context, schema, q []byte) error {
	q = bytes.TrimSpace(q)
	g := &st.group
	if !g.open {
		return st.outside(ctx)
	}
	if g.state != groupStarted {
		return st.inside(ctx, schema, q)
	}
	switch {
	case string(q) == "BEGIN":
		g.state = groupRows
		return nil
	case hasWord(q, "XA START"), hasWord(q, "XA BEGIN"):
		g.state = groupPrepared
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
	g.moved = true
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
		if st.group.savepoints == nil {
			st.group.savepoints = map[string]int{}
		}
		st.group.savepoints[savepointName(q)] = st.size()
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

// savepoint is how much of the open group there was when a savepoint was set; nothing where none was. The server compares their names by a
// collation, so that a name that none has may be another spelling: of the only one, or nobody knows of which.
func (st *stream) savepoint(name string) (size int, err error) {
	known := st.group.savepoints
	if size, ok := known[name]; ok || len(known) == 0 {
		return size, nil
	}
	if len(known) > 1 {
		return 0, fmt.Errorf("read the binlog at %s: a transaction was rolled back to savepoint %q, and none has a name that is written so: "+
			"to go on without it: tailbox accept-gap --unreadable --why …: %w", st.cur, name, source.ErrStop)
	}
	for _, only := range known {
		size = only
	}
	return size, nil
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

// hasWord tells whether a statement begins with words, whatever their case.
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
