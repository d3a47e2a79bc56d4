package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tailbox/tailbox/source"
)

// aside reads a piece of the log on a connection of its own, which s opens, and returns the stream that has read it. Nothing of
// it is emitted. Ready prepares that stream.
func (st *stream) aside(ctx context.Context, s *Source, w *watch, from, to place, ready func(*stream)) (_ *stream, err error) {
	d, err := s.openDump(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if d.server.id != st.dump.server.id {
		return nil, fmt.Errorf("the server was %s and is %s now", st.dump.server.id, d.server.id)
	}
	if err := s.start(ctx, d, from); err != nil {
		return nil, err
	}
	other := newStream(s, d, w, &resume{place: from})
	other.wire, other.halt, other.start.Log = d.wire, to, st.start.Log
	other.emit = func(context.Context, *source.Batch) error { return nil }
	ready(other)
	release := context.AfterFunc(ctx, other.wire.interrupt)
	err = other.read(ctx)
	release()
	if other.zstd != nil {
		other.zstd.Close()
	}
	if !errors.Is(err, errHalted) {
		return nil, errors.Join(err, ctx.Err())
	}
	return other, nil
}

// sourceAside is a source for reading aside. Its number is one that is drawn, so that the server does not take it for this
// reader come back.
func (st *stream) sourceAside() *Source {
	cfg := *st.cfg
	cfg.ServerID = 0
	return New(cfg)
}

// alters are the places of the latest statements that altered the tables' columns, in a piece of the log that ends at upTo.
type alters struct {
	upTo place
	last map[string]place // by table
}

// asOfNow tells whether rows of a table that the log has no names of columns for are of the columns that the catalog has: of those
// before the place where it was read, the log up to there shows that nobody altered the table since. A log that is read
// as it is written has none.
func (st *stream) asOfNow(ctx context.Context, info *tableInfo) error {
	begin, end := st.group.begin, st.cat.end
	if !begin.before(end) {
		return nil
	}
	a := &st.alters
	from := begin
	if a.last == nil {
		a.last = map[string]place{}
	} else if from.before(a.upTo) {
		from = a.upTo
	}
	if from.before(end) {
		found, err := st.aside(ctx, st.sourceAside(), &watch{cfg: st.cfg, cat: st.cat}, from, end, func(other *stream) {
			other.noting, other.skip, other.alters.last = true, end, a.last
		})
		if err != nil {
			return fmt.Errorf("look from %s to %s whether %s was altered, because binlog_row_metadata is not FULL: %w", from, end, info, err)
		}
		a.upTo, a.last = end, found.alters.last
		st.wire.heard = time.Now() // nobody listened meanwhile
	}
	if begin.before(a.last[info.String()]) {
		return beforeAlter(info)
	}
	return nil
}

// note notes which tables a statement alters.
func (st *stream) note(schema, q []byte) {
	for _, t := range altered(st.cat.tables, schema, bareStatement(q)) {
		st.alters.last[t.String()] = st.group.begin
	}
}
