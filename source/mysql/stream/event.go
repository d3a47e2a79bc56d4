package stream

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
)

// dispatch handles an event whose body is in memory.
func (st *stream) dispatch(ctx context.Context, h *binlog.Header, b []byte) error {
	switch h.Type {
	case binlog.EventTableMap:
		return st.tableMap(b)
	case binlog.EventWriteRows, binlog.EventWriteRowsV1, binlog.EventWriteRowsZ, binlog.EventWriteRowsZ2,
		binlog.EventUpdateRows, binlog.EventUpdateRowsV1, binlog.EventUpdateRowsZ, binlog.EventUpdateRowsZ2, binlog.EventPartialUpdate,
		binlog.EventDeleteRows, binlog.EventDeleteRowsV1, binlog.EventDeleteRowsZ, binlog.EventDeleteRowsZ2:
		return st.rows(ctx, h.Type, b)
	case binlog.EventGTID, binlog.EventAnonymousGTID, binlog.EventTaggedGTID:
		e, err := binlog.ParseGTID(h, b, st.scratch)
		if err != nil {
			return err
		}
		return st.openTransaction(h, &e, txStarted)
	case binlog.EventMariaGTID:
		return st.mariaGTID(h, b)
	case binlog.EventQuery, binlog.EventQueryCompressed, binlog.EventExecuteLoad:
		schema, query, err := binlog.ParseQuery(h.Type, b)
		if err != nil {
			return err
		}
		return st.query(ctx, schema, query)
	case binlog.EventXID:
		return st.commit(ctx)
	case binlog.EventXAPrepare:
		return st.prepare(ctx, b)
	case binlog.EventPayload:
		return pieces{st}.payload(ctx, bytes.NewReader(b))
	}
	return st.logEvent(ctx, h, b)
}

// logEvent handles events that are about the log itself.
func (st *stream) logEvent(ctx context.Context, h *binlog.Header, b []byte) error {
	switch h.Type {
	case binlog.EventRotate:
		return st.rotate(b)
	case binlog.EventFormat:
		return st.format(h, b) // no place to begin at: what says of the file that it is encrypted stands behind it
	case binlog.EventPreviousGTIDs, binlog.EventGTIDList:
		if h.Flags&binlog.FlagArtificial == 0 && !st.byGTID {
			set, err := previousGTIDs(h.Type, b)
			if err != nil {
				return err
			}
			st.gtids = set // exact, whatever was known before
		}
		return st.outside(ctx)
	case binlog.EventHeartbeat, binlog.EventHeartbeatV2:
		return st.heartbeat(ctx, h, b)
	case binlog.EventStop, binlog.EventBinlogCheckpoint, binlog.EventStartEncryption:
		return st.outside(ctx)
	case binlog.EventIncident:
		return fmt.Errorf("read the binlog at %s: the server says that transactions are missing in it (incident event): %w", st.cur, source.ErrGap)
	case binlog.EventIntvar, binlog.EventRand, binlog.EventUserVar, binlog.EventRowsQuery, binlog.EventTransactionCtx, binlog.EventViewChange, binlog.EventAnnotateRows,
		binlog.EventBeginLoad, binlog.EventAppendBlock, binlog.EventDeleteFile: // the file of LOAD DATA, whose statement follows
		return nil // parts of a transaction that no message depends on
	}
	if h.Flags&binlog.FlagIgnorable != 0 {
		return nil
	}
	return fmt.Errorf("read the binlog at %s: event of unknown type %d: a newer tailbox may know it: %w", st.cur, h.Type, source.ErrStop)
}

func previousGTIDs(typ byte, b []byte) (*binlog.GTIDSet, error) {
	if typ == binlog.EventGTIDList {
		return binlog.ParseGTIDList(b)
	}
	return binlog.ParsePreviousGTIDs(b)
}

func (st *stream) mariaGTID(h *binlog.Header, b []byte) error {
	e, err := binlog.ParseMariaDBGTID(h, b)
	if err != nil {
		return err
	}
	state := txRows
	switch {
	case e.Standalone:
		state = txStarted
	case e.XID != "":
		state = txPrepared
	}
	if err := st.openTransaction(h, &e, state); err != nil {
		return err
	}
	if state == txPrepared {
		st.beginPrepared(e.XID)
	}
	return nil
}

// tableMap notes which table the rows that follow belong to.
func (st *stream) tableMap(b []byte) error {
	id, schema, table, err := binlog.ParseTableName(b)
	if err != nil {
		return err
	}
	l := st.layouts[id]
	if tx := &st.tx; st.noting || tx.skip && (tx.state != txPrepared || !st.xa.seen[tx.xid]) {
		// Nobody wants its rows, whose columns may be those of long ago: of the next transaction it is looked at anew.
		st.layouts[id] = &rowSchema{}
		return nil
	}
	if l == nil || !bytes.Equal(l.raw, b) {
		l = &rowSchema{raw: bytes.Clone(b), info: st.cat.byName[string(schema)+"."+string(table)]}
		l.own = l.info == nil && bytes.HasPrefix(table, []byte("tailbox_"))
		st.layouts[id] = l
	}
	st.tx.moved = st.tx.moved || !l.own
	return nil
}
