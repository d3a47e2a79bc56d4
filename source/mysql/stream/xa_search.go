package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// maxRemembered bounds the ids that searches remember of transactions that were found, and of those that ended.
const maxRemembered = 100_000

// searched is what searches of the log before the position that reading began at have found.
type searched struct {
	before binlog.Position // the first file that was read
	// found are transactions that were prepared there and not ended since, by their ids; nil if they have no rows of ours. ended are those
	// that began or ended there: what has the same id in an earlier file is another one, and has ended.
	found map[string]*prepared
	ended map[string]bool
	kept  int // bytes of found
	most  int // of found, and of ended
	// crowded: there were more. Found stays true, but is not all: what is not among it is searched for alone, back from the place
	// where it is committed, and nothing is remembered of others, not even what ended.
	crowded bool
}

// An xaLookup is what a stream remembers of a file that it searches, along with what it has seen.
type xaLookup struct {
	xid   string          // what is searched for
	ended map[string]bool // those that began or ended in the file
	// roomSeen and roomEnded are for others; crowded: some were left out.
	roomSeen, roomEnded int
	crowded             bool
}

// takes reports whether an id is to be remembered among n others.
func (h *xaLookup) takes(xid string, n, room int) bool {
	fits := xid == h.xid || n < room
	h.crowded = h.crowded || !fits
	return fits
}

// A searcher is a stream that looks in the log before the position that it began at.
type searcher struct{ *stream }

// search looks in the log before the position that reading began at for the XA transaction that the open transaction commits: it was
// prepared before a first position was established, before a failover, or without rows of ours. It goes back file by file; what
// it finds prepared on the way is remembered, so no file is searched twice while that is not too much. A file that cannot be read,
// or no longer, holds nothing: that is no fault of the position that is read.
func (st searcher) search(ctx context.Context, xid string) (p *prepared, ok bool, err error) {
	h := &st.xa.searched
	if p, ok = h.take(xid); ok || h.ended[xid] {
		return p, ok, nil
	}
	s := st.sideSource()
	w, seen := &watch{cfg: st.cfg, cat: st.cat}, newAlters()
	defer func() { err = errors.Join(err, w.closeSession(ctx)) }()
	if err := w.connect(ctx); err != nil {
		return nil, false, err
	}
	files, err := server.ReadLogFiles(ctx, w.session)
	if err != nil {
		return nil, false, err
	}
	over := false
	for i := len(files) - 1; i >= 0 && !over; i-- {
		f := files[i].Start
		f.Pos = binlog.FirstPos
		if f.File > st.tx.begin.File || !h.crowded && h.before.File != 0 && f.File >= h.before.File {
			continue
		}
		back, err := st.searchFile(ctx, s, w, seen, f, h.lookup(xid))
		switch {
		case errors.Is(err, source.ErrGap), errors.Is(err, source.ErrStop):
			st.cfg.Logger.Warn("a file of the binlog cannot be searched for an XA transaction", "file", f.FileName(), "xid", xid, "error", err)
		case err != nil:
			return nil, false, fmt.Errorf("look in %s for an XA transaction that is committed at %s: %w", f.FileName(), st.tx.begin, err)
		default:
			p, ok = h.add(back)
			over = back.xa.xaLookup.ended[xid]
		}
		h.before = f
	}
	st.wire.Touch(time.Now()) // nobody listened meanwhile
	return p, ok, nil
}

// lookup is for the next file.
func (h *searched) lookup(xid string) *xaLookup {
	next := &xaLookup{xid: xid, ended: map[string]bool{}}
	if !h.crowded {
		next.roomSeen, next.roomEnded = h.most-len(h.found), h.most-len(h.ended)
	}
	return next
}

// take gives a transaction away that was found.
func (h *searched) take(xid string) (p *prepared, ok bool) {
	if p, ok = h.found[xid]; p != nil {
		h.kept -= p.bytes
	}
	delete(h.found, xid)
	return p, ok
}

// add takes in what a stream has read of a file that lies before all others, and gives away what it was to find.
func (h *searched) add(back *stream) (p *prepared, ok bool) {
	xid := back.xa.xaLookup.xid
	if h.crowded {
		return back.xa.prepared[xid], back.xa.seen[xid]
	}
	if h.found == nil {
		h.found, h.ended = map[string]*prepared{}, map[string]bool{}
	}
	for xid := range back.xa.seen {
		if _, later := h.found[xid]; later || h.ended[xid] {
			continue
		}
		p := back.xa.prepared[xid]
		if p != nil && h.kept+p.bytes > maxPrepared {
			p.messages, p.bytes, p.tooLarge = nil, 0, true
		}
		if h.found[xid] = p; p != nil {
			h.kept += p.bytes
		}
	}
	if maps.Copy(h.ended, back.xa.xaLookup.ended); back.xa.xaLookup.crowded {
		h.crowded, h.ended = true, nil
	}
	return h.take(xid)
}

// searchFile reads a file up to its end, or to the open transaction. Seen is what was found out of the log behind it, so that nothing of that is
// read once more for each file.
func (st searcher) searchFile(ctx context.Context, s *Source, w *watch, seen *lastAlters, f binlog.Position, xaLookup *xaLookup) (*stream, error) {
	halt := st.tx.begin
	if f.File != halt.File {
		halt = binlog.Position{Base: f.Base, File: f.File + 1, Pos: binlog.FirstPos}
	}
	return s.readPiece(ctx, w, st.dump.server.ID, f, halt, func(back *stream) {
		back.start.Log, back.skip, back.alters, back.xa.xaLookup = st.start.Log, st.tx.begin, seen, xaLookup
	})
}

// kept tables are those that no comparison with the log is made of.
func (cat *knownTables) kept() (names []string) {
	for _, t := range cat.tables {
		if t.OnDelivered == outbox.Keep {
			names = append(names, t.String())
		}
	}
	return names
}

// searchKept searches for a transaction that is committed where it may have rows that nothing else finds.
func (st searcher) searchKept(ctx context.Context, xid string) error {
	tables := st.cat.kept()
	if st.xa.seen[xid] || st.tx.skip || len(tables) == 0 || st.halt.File != 0 {
		return nil
	}
	p, ok, err := st.search(ctx, xid)
	if err != nil {
		return err
	}
	if ok {
		if p != nil {
			st.xa.prepared[xid] = p
			st.xa.kept += p.bytes
		}
		return nil
	}
	st.count("xa", 1)
	st.cfg.Logger.Error("an XA transaction was committed, and the log does not hold its rows, or no longer (it was purged, or sql_log_bin was 0): what it "+
		"inserted into tables with on_delivered: keep is not delivered", "binlog", st.cur.String(), "xid", xid, "tables", strings.Join(tables, ", "))
	return nil
}
