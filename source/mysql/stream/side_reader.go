package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// readPiece reads a piece of a server's log on a connection of its own, and returns the stream that has read it. Nothing of it is emitted. Ready prepares
// that stream.
func (s *Source) readPiece(ctx context.Context, w *watch, of string, from, to binlog.Position, ready func(*stream)) (_ *stream, err error) {
	d, err := s.openDump(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if d.server.ID != of {
		return nil, fmt.Errorf("the server was %s and is %s now", of, d.server.ID)
	}
	if err := s.start(ctx, d, from); err != nil {
		return nil, err
	}
	st := newStream(s, d, w, &resume{place: from})
	st.wire, st.halt = d.wire, to
	st.emit = func(context.Context, *source.Batch) error { return nil }
	ready(st)
	release := context.AfterFunc(ctx, st.wire.Interrupt)
	err = st.read(ctx)
	release()
	if st.zstd != nil {
		st.zstd.Close()
	}
	if !errors.Is(err, errHalted) {
		return nil, errors.Join(err, ctx.Err())
	}
	return st, nil
}

// sideSource is a source for reading aside. Its number is one that is drawn, so that the server does not take it for this
// reader come back.
func (st *stream) sideSource() *Source {
	cfg := *st.cfg
	cfg.ServerID = 0
	return New(cfg)
}

// alters are the places of the latest statements that altered the tables' columns, in the piece of the log from one place up to another.
type lastAlters struct {
	from, upTo binlog.Position
	last       map[string]binlog.Position // by table
}

func newAlters() *lastAlters { return &lastAlters{last: map[string]binlog.Position{}} }

// asOfNow reports whether rows of a table that the log has no names of columns for are of the columns that the catalog has: of those
// before the place where it was read, the log up to there shows that nobody altered the table since. A log that is read
// as it is written has none.
func (st *stream) asOfNow(ctx context.Context, info *catalog.Table) error {
	begin, end := st.tx.begin, st.cat.end
	if !begin.Before(end) {
		return nil
	}
	a := st.alters
	if begin.Before(a.last[info.String()]) {
		return beforeAlter(info)
	}
	if a.upTo.Before(begin) {
		a.from, a.upTo = begin, begin // what lies between was not read, and nobody has asked for it
	}
	for _, piece := range [][2]binlog.Position{{begin, a.from}, {a.upTo, end}} {
		if err := st.noteAlters(ctx, piece[0], piece[1]); err != nil {
			return fmt.Errorf("look from %s to %s whether %s was altered, because binlog_row_metadata is not FULL: %w", piece[0], piece[1], info, err)
		}
	}
	if begin.Before(a.from) {
		a.from = begin
	}
	if a.upTo.Before(end) {
		a.upTo = end
	}
	if begin.Before(a.last[info.String()]) {
		return beforeAlter(info)
	}
	return nil
}

// noteAlters reads a piece of the log for the statements that altered tables.
func (st *stream) noteAlters(ctx context.Context, from, to binlog.Position) error {
	if !from.Before(to) {
		return nil
	}
	_, err := st.sideSource().readPiece(ctx, &watch{cfg: st.cfg, cat: st.cat}, st.dump.server.ID, from, to, func(other *stream) {
		other.noting, other.skip, other.alters = true, to, st.alters
	})
	st.wire.Touch(time.Now()) // nobody listened meanwhile
	return err
}

// note notes which tables a statement alters.
func (st *stream) note(schema, q []byte) {
	bare := sqltext.Bare(q)
	for _, t := range st.cat.tables {
		if name := t.String(); sqltext.ChangesColumns(bare, string(schema), t.Schema, t.Name) && st.alters.last[name].Before(st.tx.begin) {
			st.alters.last[name] = st.tx.begin
		}
	}
}
