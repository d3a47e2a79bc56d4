package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// The kinds of log entries that the server sends and that the relay drops. countIgnored names them for Config.Ignored.
const (
	ignoredUpdate = iota
	ignoredDelete
	ignoredTruncate
	ignoredOrigin
	ignoredType
	ignoredTable // inserts into tables of the publication that are not configured
	ignoredMessage
	ignoredKinds
)

func (st *stream) countIgnored() {
	st.reportOutside(time.Now())
	if st.ignored == [ignoredKinds]int{} {
		return
	}
	names := [ignoredKinds]string{"update", "delete", "truncate", "origin", "type", "table", "message"}
	for i, n := range st.ignored {
		if n > 0 && st.cfg.Ignored != nil {
			st.cfg.Ignored(names[i], n)
		}
	}
	clear(st.ignored[:])
}

// dropped tells which kinds of messages are none of the relay's business.
func dropped(kind byte) (ignored int, ok bool) {
	switch kind {
	case 'U':
		return ignoredUpdate, true
	case 'D':
		return ignoredDelete, true
	case 'T':
		return ignoredTruncate, true
	case 'O':
		return ignoredOrigin, true
	case 'Y':
		return ignoredType, true
	}
	return 0, false
}

// copyData handles one message of the stream.
func (st *stream) copyData(ctx context.Context, b []byte) error {
	if len(b) == 0 {
		return pgrepl.Truncated("stream message")
	}
	switch b[0] {
	case 'w':
		if len(b) <= pgrepl.XLogDataSize {
			return pgrepl.Truncated("log message")
		}
		st.pings = 0
		return st.logMessage(ctx, b[pgrepl.XLogDataSize], b[pgrepl.XLogDataSize+1:])
	case 'k':
		k, err := pgrepl.ParseKeepalive(b[1:])
		if err != nil {
			return err
		}
		return st.keepalive(ctx, k)
	}
	return fmt.Errorf("read replication stream: unknown message %q: %w", b[0], pgrepl.ErrProtocol)
}

// keepalive: everything up to its position was sent before it. So it takes the same road as messages.
func (st *stream) keepalive(ctx context.Context, k pgrepl.Keepalive) error {
	if k.ReplyRequested {
		st.status.wake()
		now := time.Now()
		if now.Sub(st.lastPing) > pingWindow {
			st.pings = 0
		}
		st.pings++
		st.lastPing, st.urgent = now, true
		if st.pings > pingLimit {
			return errServerStopping
		}
	}
	if st.open {
		return nil
	}
	return st.transactionEnd(ctx, k.End)
}

// logMessage handles one message of the plugin pgoutput.
func (st *stream) logMessage(ctx context.Context, kind byte, b []byte) error {
	if i, ok := dropped(kind); ok {
		st.ignored[i]++
		return nil
	}
	switch kind {
	case 'I':
		return st.insert(ctx, b)
	case 'B':
		m, err := pgrepl.ParseBegin(b)
		if err != nil {
			return err
		}
		if st.open {
			return fmt.Errorf("read replication stream: a transaction begins inside another: %w", pgrepl.ErrProtocol)
		}
		st.open, st.begun, st.txn, st.at, st.n = true, false, m, pgrepl.TimeOf(m.Time), 0
		return nil
	case 'C':
		end, err := pgrepl.ParseCommit(b)
		if err != nil {
			return err
		}
		if !st.open {
			return fmt.Errorf("read replication stream: a transaction ends without a beginning: %w", pgrepl.ErrProtocol)
		}
		return st.transactionEnd(ctx, end)
	case 'R':
		return st.relation(ctx, b)
	case 'M':
		return st.emitted(ctx, b)
	}
	return fmt.Errorf("read replication stream: unknown kind %q of log message: %w", kind, pgrepl.ErrProtocol)
}

// row is what is known of an insert before its columns are read: the relation, and the position. A relation without a plan
// is a table that is not ours.
func (st *stream) row(ctx context.Context, relationOID uint32) (*plannedRelation, outbox.Position, error) {
	if !st.open {
		return nil, outbox.Position{}, fmt.Errorf("read insert: outside of a transaction: %w", pgrepl.ErrProtocol)
	}
	rel := st.last
	if rel == nil || rel.oid != relationOID {
		if rel = st.relations[relationOID]; rel == nil {
			return nil, outbox.Position{}, fmt.Errorf("read insert: relation %d was not announced: %w", relationOID, pgrepl.ErrProtocol)
		}
		st.last = rel
	}
	if rel.plan == nil {
		st.n++
		st.ignored[ignoredTable]++
		return rel, outbox.Position{}, nil
	}
	pos, err := st.place(ctx)
	return rel, pos, err
}

// place is the position of what comes next in the transaction.
func (st *stream) place(ctx context.Context) (outbox.Position, error) {
	pos := outbox.Position{Log: st.start.Log, Commit: uint64(st.txn.Final), N: st.n}
	st.n++
	if st.start.SafeMode == nil {
		return pos, nil
	}
	if err := st.flush(ctx); err != nil {
		return pos, err
	}
	return pos, st.start.SafeMode(ctx, pos)
}

func (st *stream) insert(ctx context.Context, b []byte) error {
	oid, tuple, err := pgrepl.ParseInsert(b)
	if err != nil {
		return err
	}
	rel, pos, err := st.row(ctx, oid)
	if err != nil || rel.plan == nil {
		return err
	}
	if st.vals, err = catalog.ParseTuple(rel.plan, tuple, st.vals); err != nil {
		return err
	}
	return st.decoded(ctx, rel.plan, pos, false, len(tuple))
}

// decoded makes a message of st.vals and adds it to the batch.
func (st *stream) decoded(ctx context.Context, p *catalog.Plan, pos outbox.Position, large bool, bytes int) error {
	m := st.dec.NewMessage()
	m.Position, m.CommitTime, m.Txn = pos, st.at, uint64(st.txn.XID)
	if err := st.dec.Decode(&p.Plan, st.vals, large, m); err != nil {
		// What came before the row is good: it is delivered although reading stops here.
		return errors.Join(err, st.flush(ctx))
	}
	if m.ID == "" {
		m.ID = outbox.StandInID(pos.String())
	}
	return st.add(ctx, m, bytes)
}
