package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// rowSchemaOf finds the row schema of the rows in an event, and whether there is anything to do with them.
func (st *stream) rowSchemaOf(ctx context.Context, typ byte, b []byte) (l *rowSchema, wanted bool, err error) {
	if len(b) < binlog.TableIDSize {
		return nil, false, binlog.Truncated("rows")
	}
	if !st.tx.open {
		return nil, false, fmt.Errorf("read the binlog at %s: rows outside of a transaction: %w", st.cur, binlog.ErrProtocol)
	}
	id := uint64(binary.LittleEndian.Uint32(b)) | uint64(b[4])<<32 | uint64(b[5])<<40
	if l = st.layouts[id]; l == nil {
		return nil, false, fmt.Errorf("read the binlog at %s: rows of table %d, which was not announced: %w", st.cur, id, binlog.ErrProtocol)
	}
	if l.info == nil {
		return l, false, nil
	}
	if ignored, _, _ := binlog.RowsKind(typ); ignored != "" {
		if !st.tx.skip {
			st.count(ignored, 1)
		}
		return l, false, nil
	}
	if err = st.learn(ctx, l); err != nil && st.tx.skip && errors.Is(err, source.ErrStop) {
		st.holdError(err)
		l.err, l.raw = err, nil // of the next transaction it is looked at anew
		return l, false, nil
	}
	return l, err == nil && l.plan != nil, err
}

// learn finds out how the rows of a row schema are read.
func (st *stream) learn(ctx context.Context, l *rowSchema) error {
	if l.plan != nil || l.err != nil {
		return l.err
	}
	t, err := binlog.ParseTableMap(l.raw)
	if err != nil {
		return err
	}
	info := st.cat.byName[l.info.String()]
	if t.Names == nil && info != nil && (st.stale || sameColumns(t, info) != nil) {
		// Altered since the catalog was read.
		cat, err := st.watch.refresh(ctx)
		if err != nil {
			return err
		}
		st.cat, st.stale = cat, false
		info = cat.byName[info.String()]
	}
	if l.info = info; info == nil {
		return nil
	}
	if t.Names == nil {
		if err := st.asOfNow(ctx, info); err != nil {
			return err
		}
	}
	made, err := st.cat.newRowSchema(info, t)
	if err != nil {
		return err
	}
	l.plan, l.wire = made.plan, made.wire
	return nil
}

// rows handles an event with rows.
func (st *stream) rows(ctx context.Context, typ byte, b []byte) error {
	l, wanted, err := st.rowSchemaOf(ctx, typ, b)
	if err != nil || !wanted {
		st.pass(len(b))
		return err
	}
	_, compressed, v2 := binlog.RowsKind(typ)
	e, start, err := binlog.ParseRowsHead(b, len(l.wire), v2)
	if err != nil {
		return err
	}
	if compressed {
		rest := b[start:]
		size, _, err := binlog.InflatedSize(rest)
		if err != nil {
			return err
		}
		if size > binlog.BufferSize {
			return pieces{st}.inflateRows(ctx, l, &e, rest, size)
		}
		if b, err = binlog.Inflate(rest, size); err != nil {
			return fmt.Errorf("read rows of %s: %w", l.plan.Table, err)
		}
		start = 0
	}
	for at := start; at < len(b); {
		var next int
		if st.vals, next, err = l.parseRow(&e, b[at:], st.vals); err != nil {
			return err
		}
		if next == 0 {
			return binlog.Truncated("rows of " + l.plan.Table)
		}
		if err := st.row(ctx, l, uint64(at)/2, false, next); err != nil {
			return err
		}
		at += next
	}
	st.pass(len(b))
	return nil
}

// pass counts what was passed of the transaction's rows.
func (st *stream) pass(size int) { st.tx.n += uint64(size+1) / 2 }

// row makes a message of st.vals. Offset is where the row stands among those of its event.
func (st *stream) row(ctx context.Context, l *rowSchema, offset uint64, large bool, bytes int) error {
	tx := &st.tx
	n := tx.n + offset
	if n > 1<<32-1 {
		return fmt.Errorf("read the binlog at %s: a row of %s stands behind 8 GiB of rows of one transaction, where no position tells it from others: "+
			"write smaller transactions; what is in the log already can be passed by tailbox accept-gap --unreadable --why …: %w", st.cur, l.plan.Table, source.ErrStop)
	}
	pos := outbox.Position{Log: st.start.Log, Commit: tx.ordinal, N: uint32(n)}
	if st.start.SafeMode != nil && tx.state != txPrepared {
		if err := st.flush(ctx, true); err != nil {
			return err
		}
		if err := st.start.SafeMode(ctx, pos); err != nil {
			return err
		}
	}
	m := st.dec.NewMessage()
	m.Position, m.CommitTime, m.Txn = pos, tx.at, Txn
	if err := st.dec.Decode(&l.plan.Plan, st.vals, large, m); err != nil {
		return err
	}
	clear(st.vals) // or they would keep a large row in memory while the message waits
	if m.ID == "" {
		m.ID = outbox.StandInID(pos.String())
	}
	if tx.state == txPrepared {
		return st.keep(l, m, bytes)
	}
	return st.add(ctx, m, bytes)
}

// Txn is the Txn of all messages of the log: whether their rows are visible is found out by asking for each one with a
// lock, which waits for its transaction.
const Txn = 1
