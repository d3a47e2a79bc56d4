package stream

import (
	"context"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// maxPrepared bounds the rows of transactions that are prepared and have not ended, in bytes.
const maxPrepared = 16 << 20

// A prepared is an XA transaction whose rows were read and that has not ended. Its rows become messages where it is committed,
// at that place in the order of commits. Until then each Resume names the place where it stands, so that a later Run reads it
// again.
type prepared struct {
	begin    binlog.Position
	messages []*outbox.Message
	bytes    int
	// tooLarge: its rows are not kept in memory.
	tooLarge bool
	table    string
	// unreadable, if set, is why its rows cannot be read. That matters if it is committed.
	unreadable error
	keep       bool // it has rows of a table that no comparison with the log is made of
}

// xaTransactions is what is known of XA transactions, by their ids.
type xaTransactions struct {
	// prepared are those that are prepared and have rows of ours; kept is how many bytes these have.
	prepared map[string]*prepared
	kept     int
	// seen are the transactions that are prepared, with rows of ours or without, as far as the log was read.
	seen     map[string]bool
	searched searched
	xaLookup *xaLookup // of a stream that searches a file before the position
}

// beginPrepared: the open transaction ends in being prepared. What had its id before has ended, whether the log
// tells of that or not.
func (st *stream) beginPrepared(xid string) {
	st.tx.xid = xid
	st.xa.begin(xid)
}

// begin takes in a transaction that is about to be prepared.
func (x *xaTransactions) begin(xid string) {
	x.forget(xid)
	if x.xaLookup == nil || x.xaLookup.takes(xid, len(x.seen), x.xaLookup.roomSeen) {
		x.seen[xid] = true
	}
}

// held is what the open transaction has left of itself in prepared; nil if there is nothing.
func (st *stream) held() *prepared {
	if st.tx.state != txPrepared {
		return nil
	}
	return st.xa.prepared[st.tx.xid]
}

// hold is held, made where there is nothing yet.
func (st *stream) hold() *prepared {
	p := st.held()
	if p == nil {
		p = &prepared{begin: st.tx.begin}
		st.xa.prepared[st.tx.xid] = p
	}
	return p
}

// holdError: rows of the open transaction, which is read again because it may be committed later, cannot be read.
func (st *stream) holdError(err error) { st.hold().unreadable = err }

// keep takes a row of a transaction that is about to be prepared.
func (st *stream) keep(l *rowSchema, m *outbox.Message, bytes int) error {
	p := st.hold()
	p.table = l.plan.Table
	if info := st.cat.byName[l.plan.Table]; info != nil && info.OnDelivered == outbox.Keep {
		p.keep = true
	}
	if p.tooLarge || st.xa.kept+bytes > maxPrepared {
		st.xa.kept -= p.bytes
		p.messages, p.bytes, p.tooLarge = nil, 0, true
		return nil
	}
	p.messages = append(p.messages, m)
	p.bytes += bytes
	st.xa.kept += bytes
	return nil
}

// prepare ends a transaction that is prepared. In one phase it is committed at once.
func (st *stream) prepare(ctx context.Context, b []byte) error {
	if len(b) < 1 {
		return binlog.Truncated("xa prepare event")
	}
	if b[0] != 0 {
		return st.commitPrepared(ctx, st.tx.xid)
	}
	return st.commit(ctx)
}

// commitPrepared ends a transaction by which a prepared one is committed.
func (st *stream) commitPrepared(ctx context.Context, xid string) error {
	if err := (searcher{st}).searchKept(ctx, xid); err != nil {
		return err
	}
	p := st.xa.prepared[xid]
	st.xa.forget(xid)
	tx := &st.tx
	switch {
	case tx.skip:
	case p == nil:
		// It had no rows of ours, or was prepared before the log was first read: those a comparison finds, or else the search has.
	case p.unreadable != nil:
		return p.unreadable
	case p.tooLarge && p.keep:
		return fmt.Errorf("read the binlog at %s: an XA transaction with more than %d MiB of rows of %s was prepared: they cannot be held: "+
			"write smaller ones; to go on without it: tailbox accept-gap --unreadable --why …: %w", st.cur, maxPrepared>>20, p.table, source.ErrStop)
	case p.tooLarge:
		st.count("xa", 1)
		st.cfg.Logger.Error("an XA transaction is too large to be held until it ends: its rows are delivered once the table is compared with the log (source.reconcile)",
			"binlog", st.cur.String(), "table", p.table)
	default:
		tx.moved = true
		for i, m := range p.messages {
			m.Position.Commit, m.Position.N, m.CommitTime = tx.ordinal, uint32(i), tx.at
			if st.start.SafeMode != nil {
				if err := st.flush(ctx, true); err != nil {
					return err
				}
				if err := st.start.SafeMode(ctx, m.Position); err != nil {
					return err
				}
			}
			if err := st.add(ctx, m, m.Size()); err != nil {
				return err
			}
		}
	}
	return st.commit(ctx)
}

// forget drops what is known of a prepared transaction.
func (x *xaTransactions) forget(xid string) {
	if x.xaLookup != nil && !x.seen[xid] && x.xaLookup.takes(xid, len(x.xaLookup.ended), x.xaLookup.roomEnded) {
		x.xaLookup.ended[xid] = true
	}
	x.searched.take(xid)
	delete(x.seen, xid)
	if p := x.prepared[xid]; p != nil {
		x.kept -= p.bytes
		delete(x.prepared, xid)
	}
}

// oldest is the place of the first prepared transaction that has not ended; zero if there is none.
func (x *xaTransactions) oldest() binlog.Position {
	var first binlog.Position
	for _, p := range x.prepared {
		if first.File == 0 || p.begin.Before(first) {
			first = p.begin
		}
	}
	return first
}
