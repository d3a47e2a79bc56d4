package stream

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// Run implements source.Source. One goroutine reads, decodes and emits; a watch asks the server from time to time where its
// log ends, and looks whether the tables are there.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	from, err := parseResume(start.From)
	if err != nil {
		return fmt.Errorf("start at the checkpoint: %w", err)
	}
	var refused error
	err = s.run(ctx, from, start, func(ctx context.Context, b *source.Batch) error {
		refused = emit(ctx, b)
		return refused
	})
	switch {
	case refused != nil && !(ctx.Err() != nil && errors.Is(refused, ctx.Err())):
		return refused
	case source.Ended(ctx):
		return nil // whatever the end of the context broke
	}
	return err
}

func (s *Source) run(ctx context.Context, from *resume, start source.Start, emit source.Emit) (err error) {
	watch, err := s.newWatch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watch.close(ctx)) }()
	d, err := s.openDump(ctx)
	if err != nil {
		return err
	}
	st := newStream(s, d, watch, from)
	defer func() {
		if cerr := st.dump.close(ctx); err == nil {
			err = cerr
		}
	}()
	st.start, st.emit = start, emit
	if err := st.begin(ctx, from); err != nil {
		return err
	}
	start.Begun()
	s.cfg.Logger.Info("reading the log", "from", from.place.String(), "server", d.server.ID, "by_gtid", st.byGTID)
	for {
		err := st.run(ctx)
		if !errors.Is(err, errCut) || ctx.Err() != nil {
			return err
		}
		if err := st.passCut(ctx, err); err != nil {
			return err
		}
	}
}

// A stream is one Run once it is connected. All of it belongs to the reading goroutine.
type stream struct {
	cfg    *server.Config
	source *Source
	dump   *dump
	wire   *binlog.Reader
	watch  *watch
	cat    *knownTables
	start  source.Start
	emit   source.Emit

	// cur is where the stream is. The file it names is the one whose beginning was read (opened) but for the moment between
	// two files.
	cur      binlog.Position
	opened   bool
	created  string
	checksum bool
	// begun is created of the first file that was read.
	begun  string
	byGTID bool
	// moving is the checkpoint of another server, by whose GTIDs the log is read. Up to settled, where the log ended at the
	// beginning, transactions that it covers may follow those that it does not; so until then its own place goes on standing in
	// each Resume, with the GTIDs that were read.
	moving  *resume
	settled binlog.Position
	wants   *resume // the checkpoint, until its file was seen to be the same one
	// unproven: the file is the one of the checkpoint by its name and the second of its beginning, but no event was read yet from
	// the place.
	unproven bool
	gtids    *binlog.GTIDSet
	// skip: transactions that begin before it were read by an earlier Run; only what is prepared there matters.
	skip binlog.Position

	layouts map[uint64]*rowSchema
	dec     columns.Decoder
	vals    []columns.Value
	inner   bool // inside a compressed transaction
	zstd    *zstd.Decoder
	scratch []byte

	tx transaction
	xa xaTransactions
	// stale: the catalog may not show yet what the log said. Noting: all that is read for is who altered the tables.
	stale, noting bool
	alters        *lastAlters
	out           outgoing
	ignored       map[string]int
	resumeBuf     []byte
	// originServer is the server_id in the header of the present transaction's GTID.
	originServer uint32
	lastEmitted  time.Time
	// halt ends the reading at a place, for a scan of a piece of the log.
	halt binlog.Position
}

func newStream(s *Source, d *dump, watch *watch, from *resume) *stream {
	st := &stream{cfg: &s.cfg, source: s, dump: d, watch: watch, cat: watch.catalog(),
		cur: from.place, created: from.created, gtids: from.gtids,
		layouts: map[uint64]*rowSchema{}, ignored: map[string]int{},
		alters: newAlters(), xa: xaTransactions{prepared: map[string]*prepared{}, seen: map[string]bool{}, searched: searched{most: s.remembers}},
		dec: columns.Decoder{MaxMessage: s.cfg.MaxMessage}}
	st.out.done, st.out.reported, st.out.markEvery = from.place, from.place, markEvery
	if st.gtids == nil {
		st.gtids = binlog.NewGTIDSet(d.session.Server.MariaDB)
	}
	return st
}

// begin has the server send the log: by file and position where it is the server that the checkpoint belongs to, else by GTIDs.
func (st *stream) begin(ctx context.Context, from *resume) error {
	s, d := st.source, st.dump
	s.mu.Lock()
	examined := s.examined
	s.mu.Unlock()
	if examined != "" && examined != d.server.ID {
		return fmt.Errorf("start to read the binlog: the server was %s and is %s now: the checkpoint has to be examined again", examined, d.server.ID)
	}
	lost, err := "", error(nil)
	prepared := from.from
	if from.server == d.server.ID {
		lost, err = lostHere(ctx, &s.cfg, d.session, from)
	} else {
		lost, err = lostElsewhere(ctx, d.session, d.server, from)
	}
	switch {
	case err != nil:
		return fmt.Errorf("start to read the binlog: %w", err)
	case lost != "":
		return fmt.Errorf("start to read the binlog from %s: %s: %w", from.place, lost, source.ErrGap)
	case from.server == d.server.ID:
		st.wants, st.unproven = from, true
		if prepared != from.from {
			st.cfg.Logger.Warn("the log no longer holds an XA transaction that was prepared and has not ended: if it is committed, its rows are found where the "+
				"table is compared with the log (source.reconcile)", "binlog", prepared.String(), "fix", "XA RECOVER lists it: commit it or roll it back")
		}
		if from.from.File != 0 {
			st.cur, st.skip = from.from, from.place
		}
		if st.cur.Pos > 1<<32-1 {
			st.skip = from.place
		}
		err = s.start(ctx, d, st.cur)
	default:
		end, err := server.ReadLogEnd(ctx, d.session)
		if err != nil {
			return err
		}
		st.byGTID, st.moving, st.settled = true, from, end.Position
		if err := s.startAfter(ctx, d, from.gtids); err != nil {
			return err
		}
	}
	st.wire = d.wire
	return err
}

// run reads until the end.
func (st *stream) run(ctx context.Context) error {
	st.source.attach(st.wire)
	release := context.AfterFunc(ctx, st.wire.Interrupt)
	err := st.read(ctx)
	if !st.out.refused && ctx.Err() == nil {
		// What came before is good, whatever stops the reading here: who gives the rest up has named none of it.
		err = errors.Join(err, st.flush(ctx, false))
	}
	release()
	st.source.attach(nil)
	if st.zstd != nil {
		st.zstd.Close()
		st.zstd = nil
	}
	if failure := st.watch.failed(); failure != nil && errors.Is(err, binlog.ErrInterrupted) && ctx.Err() == nil {
		err = failure
	}
	return err
}

// errHalted ends a scan at its end.
var errHalted = errors.New("halted")

// read is the loop: consume what is in the buffer, emit it, read on.
func (st *stream) read(ctx context.Context) error {
	st.watch.notify(st.wire)
	waiting := st.source.barriers.Waiting
	for {
		if st.halt.File != 0 && st.opened && !st.out.done.Before(st.halt) && !st.tx.open {
			return errHalted
		}
		payload, large := st.wire.Next()
		if payload != nil {
			if err := st.packet(ctx, payload); err != nil {
				return err
			}
			continue
		}
		if large {
			if err := (pieces{st}).largePacket(ctx); err != nil {
				return err
			}
			continue
		}
		// Nothing complete is left in the buffer: what was read is not held back.
		deadline, err := st.pause(ctx)
		if err != nil {
			return err
		}
		if st.opened {
			st.watch.waits.Store(st.cur.Ordinal())
		}
		err = st.wire.Fill(deadline, waiting)
		st.watch.waits.Store(0)
		if err != nil && !errors.Is(err, binlog.ErrDeadline) {
			return err
		}
	}
}

// packet handles one packet.
func (st *stream) packet(ctx context.Context, b []byte) error {
	if len(b) == 0 {
		return binlog.Truncated("packet")
	}
	switch b[0] {
	case 0:
		return st.event(ctx, b[1:])
	case 0xff:
		return fmt.Errorf("read the binlog: %w", streamError(binlog.ParseError(b)))
	case 0xfe:
		return errors.New("read the binlog: the server ended it")
	}
	return fmt.Errorf("read the binlog: packet of kind %d: %w", b[0], binlog.ErrProtocol)
}

// event handles one event that is in memory as a whole.
func (st *stream) event(ctx context.Context, b []byte) error {
	h, ok := binlog.ParseHeader(b)
	if !ok || int(h.Size) != len(b) {
		return binlog.Truncated("event")
	}
	if err := st.prove(&h); err != nil {
		return err
	}
	body := b[binlog.HeaderSize:]
	switch {
	case h.Type == binlog.EventFormat:
		body = body[:max(0, len(body)-binlog.ChecksumSize)] // is there in any case
	case st.sealed(&h, b):
		if len(body) < binlog.ChecksumSize {
			return binlog.Truncated("event")
		}
		end := len(b) - binlog.ChecksumSize
		if sum, _ := binlog.LittleEndian(b[end:]); uint32(sum) != crc32.ChecksumIEEE(b[:end]) {
			if st.unproven && st.opened { // what stands between two events may claim to be one that prove lets pass
				return st.misplaced()
			}
			return fmt.Errorf("read the binlog after %s: an event's checksum is wrong: %w", st.cur, binlog.ErrProtocol)
		}
		body = b[binlog.HeaderSize:end]
	}
	if err := st.advance(&h); err != nil {
		return err
	}
	return st.dispatch(ctx, &h, body)
}

// prove looks whether the first event stands where the stream was to begin. A server that is asked for a place between two
// events sends what stands there as if it were one, or says that it cannot: either way the log is not the one that was read.
func (st *stream) prove(h *binlog.Header) error {
	switch {
	case !st.unproven, !st.opened, h.Artificial():
		return nil
	case h.End == 0 && h.Type == binlog.EventStartEncryption: // sent again, for a start in the middle of its file
		return nil
	case uint32(st.cur.Pos)+h.Size != h.End:
		return st.misplaced()
	}
	st.unproven = false
	return nil
}

func (st *stream) misplaced() error {
	return fmt.Errorf("read the binlog from %s: no transaction begins there: the log was reset, or the server restored: %w", st.cur, source.ErrGap)
}

// sealed reports whether an event ends in a checksum. The first event comes before the description of its file, which tells.
func (st *stream) sealed(h *binlog.Header, b []byte) bool {
	if st.opened || h.Type != binlog.EventRotate || h.Flags&binlog.FlagArtificial == 0 || len(b) < binlog.HeaderSize+binlog.ChecksumSize {
		return st.checksum
	}
	end := len(b) - binlog.ChecksumSize
	sum, _ := binlog.LittleEndian(b[end:])
	return uint32(sum) == crc32.ChecksumIEEE(b[:end])
}

// advance moves to an event's end. The header has 32 bits of it; events that were written before their place was known have none.
func (st *stream) advance(h *binlog.Header) error {
	switch {
	case h.Artificial():
		return nil
	case h.End == 0 && (h.Type == binlog.EventFormat || h.Type == binlog.EventStartEncryption): // sent again, for a start in the middle of their file
		return nil
	case h.End == 0:
		st.cur.Pos += uint64(h.Size)
	default:
		end := st.cur.Pos&^(1<<32-1) | uint64(h.End)
		if end < st.cur.Pos {
			end += 1 << 32
		}
		st.cur.Pos = end
	}
	if st.cur.Pos > binlog.MaxPos {
		return fmt.Errorf("read the binlog at %s: the file is too large: %w", st.cur, source.ErrStop)
	}
	return nil
}

// rotate goes on to another file.
func (st *stream) rotate(b []byte) error {
	p, err := binlog.ParseRotate(b)
	if err != nil {
		return err
	}
	if st.opened && (p.Base != st.cur.Base || p.File < st.cur.File) {
		return fmt.Errorf("read the binlog: after %s the server went on with %s: %w", st.cur, p, source.ErrGap)
	}
	if p.File != st.cur.File {
		if err := st.dropTransaction("cut off at the end of a file"); err != nil {
			return err
		}
		st.opened = false
	}
	if p.File != st.cur.File || p.Base != st.cur.Base || !st.opened {
		st.cur = p
	}
	return nil
}

// format reads the description of a file, with which it begins.
func (st *stream) format(h *binlog.Header, b []byte) error {
	if len(b) < 2 || b[0] != 4 {
		return fmt.Errorf("read the binlog at %s: its version is not 4: %w", st.cur, binlog.ErrProtocol)
	}
	created := strconv.FormatUint(uint64(h.Time), 10) + "." + strconv.FormatUint(uint64(h.ServerID), 10)
	if w := st.wants; w != nil && w.place.File == st.cur.File {
		if w.created != created {
			return fmt.Errorf("read the binlog from %s: the file is another one (begun %s, not %s): the log was reset, or the server restored: %w",
				w.place, created, w.created, source.ErrGap)
		}
		st.wants = nil
	}
	st.checksum = len(b) > 1 && b[len(b)-1] == 1
	if st.opened && st.created == created && h.End == 0 {
		return nil
	}
	if err := st.dropTransaction("cut off by a restart of the server"); err != nil {
		return err
	}
	if st.begun == "" {
		st.begun = created
		if st.byGTID {
			st.out.done, st.out.reported = st.cur, st.cur
		}
	}
	st.created, st.opened = created, true
	clear(st.layouts)
	return nil
}

// outside notes that everything up to the present place is complete, for events that stand between transactions.
func (st *stream) outside(ctx context.Context) error {
	if st.tx.open || !st.opened {
		return nil
	}
	return st.transactionEnd(ctx)
}

// heartbeat: the server has nothing more to send up to its position.
func (st *stream) heartbeat(ctx context.Context, h *binlog.Header, b []byte) error {
	name := string(b)
	if st.tx.open || !st.opened || !strings.HasPrefix(name, st.cur.FileName()) || h.End == 0 {
		return nil
	}
	if end := st.cur.Pos&^(1<<32-1) | uint64(h.End); end > st.cur.Pos {
		st.cur.Pos = end
	}
	return st.outside(ctx)
}
