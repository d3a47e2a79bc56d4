package mysql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// search looks in the log before the position that reading began at for the XA transaction that the open group commits: it was
// prepared before a first position was established, before a failover, or without rows of ours. It goes back file by file; what
// it finds prepared on the way is known from then on, so no file is searched twice.
func (st *stream) search(ctx context.Context, xid string) (err error) {
	cfg := *st.cfg
	cfg.ServerID = 0 // one that is drawn, so that the server does not take it for this reader come back
	s := New(cfg)
	w := &watch{cfg: st.cfg, cat: st.cat}
	defer func() { err = errors.Join(err, w.closeSession(ctx)) }()
	if err := w.connect(ctx); err != nil {
		return err
	}
	files, err := readLogFiles(ctx, w.session)
	if err != nil {
		return err
	}
	for i := len(files) - 1; i >= 0 && !st.seen[xid]; i-- {
		f := files[i].place
		f.pos = firstPos
		if f.file > st.group.begin.file || st.searched.file != 0 && f.file >= st.searched.file {
			continue
		}
		if err := st.searchFile(ctx, s, w, f); err != nil {
			return fmt.Errorf("look in %s for an XA transaction that is committed at %s: %w", f.name(), st.group.begin, err)
		}
		st.searched = f
	}
	st.wire.heard = time.Now() // nobody listened meanwhile
	return nil
}

// searchFile reads a file up to its end, or to the open group.
func (st *stream) searchFile(ctx context.Context, s *Source, w *watch, f place) (err error) {
	d, err := s.openDump(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if d.server.id != st.dump.server.id {
		return fmt.Errorf("the server was %s and is %s now", st.dump.server.id, d.server.id)
	}
	if err := s.start(ctx, d, f); err != nil {
		return err
	}
	back := newStream(s, d, w, &resume{place: f})
	back.wire, back.skip, back.halt, back.start.Log = d.wire, st.group.begin, st.group.begin, st.start.Log
	if f.file != st.group.begin.file {
		back.halt = place{base: f.base, file: f.file + 1, pos: firstPos}
	}
	back.emit = func(context.Context, *source.Batch) error { return nil }
	release := context.AfterFunc(ctx, back.wire.interrupt)
	err = back.read(ctx)
	release()
	if back.zstd != nil {
		back.zstd.Close()
	}
	if !errors.Is(err, errHalted) {
		return errors.Join(err, ctx.Err())
	}
	// What this reader has seen itself, it knows better.
	maps.DeleteFunc(back.prepared, func(xid string, _ *prepared) bool { return st.seen[xid] })
	for xid, p := range back.prepared {
		st.kept += p.bytes
		st.prepared[xid] = p
	}
	maps.Copy(st.seen, back.seen)
	return nil
}

// kept tables are those that no comparison with the log is made of.
func (cat *catalog) kept() (names []string) {
	for _, t := range cat.tables {
		if t.OnDelivered == outbox.Keep {
			names = append(names, t.String())
		}
	}
	return names
}

// searchKept searches for a transaction that is committed where it may have rows that nothing else finds.
func (st *stream) searchKept(ctx context.Context, xid string) error {
	tables := st.cat.kept()
	if st.seen[xid] || st.group.skip || len(tables) == 0 || st.halt.file != 0 {
		return nil
	}
	if err := st.search(ctx, xid); err != nil || st.seen[xid] {
		return err
	}
	st.count("xa", 1)
	st.cfg.Logger.Error("an XA transaction was committed, and the log does not hold its rows, or no longer (it was purged, or sql_log_bin was 0): what it "+
		"inserted into tables with on_delivered: keep is not delivered", "binlog", st.cur.String(), "xid", xid, "tables", strings.Join(tables, ", "))
	return nil
}
