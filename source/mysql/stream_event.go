package mysql

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tailbox/tailbox/source"
)

// dispatch handles an event whose body is in memory.
func (st *stream) dispatch(ctx context.Context, h *header, b []byte) error {
	switch h.typ {
	case eventTableMap:
		return st.tableMap(b)
	case eventWriteRows, eventWriteRowsV1, eventWriteRowsZ, eventWriteRowsZ2,
		eventUpdateRows, eventUpdateRowsV1, eventUpdateRowsZ, eventUpdateRowsZ2, eventPartialUpdate,
		eventDeleteRows, eventDeleteRowsV1, eventDeleteRowsZ, eventDeleteRowsZ2:
		return st.rows(ctx, h.typ, b)
	case eventGTID, eventAnonymousGTID, eventTaggedGTID:
		e, err := parseGTID(h, b, st.scratch)
		if err != nil {
			return err
		}
		return st.openGroup(h, &e, groupStarted)
	case eventMariaGTID:
		return st.mariaGTID(h, b)
	case eventQuery, eventQueryCompressed, eventExecuteLoad:
		schema, query, err := parseQuery(h.typ, b)
		if err != nil {
			return err
		}
		return st.query(ctx, schema, query)
	case eventXID:
		return st.commit(ctx)
	case eventXAPrepare:
		return st.prepare(ctx, b)
	case eventPayload:
		return st.payload(ctx, bytes.NewReader(b))
	}
	return st.logEvent(ctx, h, b)
}

// logEvent handles events that are about the log itself.
func (st *stream) logEvent(ctx context.Context, h *header, b []byte) error {
	switch h.typ {
	case eventRotate:
		return st.rotate(b)
	case eventFormat:
		return st.format(h, b) // no place to begin at: what says of the file that it is encrypted stands behind it
	case eventPreviousGTIDs, eventGTIDList:
		if h.flags&flagArtificial == 0 && !st.byGTID {
			set, err := previousGTIDs(h.typ, b)
			if err != nil {
				return err
			}
			st.gtids = set // exact, whatever was known before
		}
		return st.outside(ctx)
	case eventHeartbeat, eventHeartbeatV2:
		return st.heartbeat(ctx, h, b)
	case eventStop, eventBinlogCheckpoint, eventStartEncryption:
		return st.outside(ctx)
	case eventIncident:
		return fmt.Errorf("read the binlog at %s: the server says that transactions are missing in it (incident event): %w", st.cur, source.ErrGap)
	case eventIntvar, eventRand, eventUserVar, eventRowsQuery, eventTransactionCtx, eventViewChange, eventAnnotateRows,
		eventBeginLoad, eventAppendBlock, eventDeleteFile: // the file of LOAD DATA, whose statement follows
		return nil // parts of a group that no message depends on
	}
	if h.flags&flagIgnorable != 0 {
		return nil
	}
	return fmt.Errorf("read the binlog at %s: event of unknown type %d: a newer tailbox may know it: %w", st.cur, h.typ, source.ErrStop)
}

func previousGTIDs(typ byte, b []byte) (*gtidSet, error) {
	if typ == eventGTIDList {
		return parseGTIDList(b)
	}
	return parsePreviousGTIDs(b)
}

func (st *stream) mariaGTID(h *header, b []byte) error {
	e, err := parseMariaGTID(h, b)
	if err != nil {
		return err
	}
	state := groupRows
	switch {
	case e.alone:
		state = groupStarted
	case e.xid != "":
		state = groupPrepared
	}
	if err := st.openGroup(h, &e, state); err != nil {
		return err
	}
	if state == groupPrepared {
		st.beginPrepared(e.xid)
	}
	return nil
}

// tableMap notes which table the rows that follow belong to.
func (st *stream) tableMap(b []byte) error {
	id, schema, table, err := parseTableName(b)
	if err != nil {
		return err
	}
	l := st.layouts[id]
	if g := &st.group; st.noting || g.skip && (g.state != groupPrepared || !st.seen[g.xid]) {
		// Nobody wants its rows, whose columns may be those of long ago: of the next transaction it is looked at anew.
		st.layouts[id] = &layout{}
		return nil
	}
	if l == nil || !bytes.Equal(l.raw, b) {
		l = &layout{raw: bytes.Clone(b), info: st.cat.byName[string(schema)+"."+string(table)]}
		l.own = l.info == nil && bytes.HasPrefix(table, []byte("tailbox_"))
		st.layouts[id] = l
	}
	st.group.moved = st.group.moved || !l.own
	return nil
}
