package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

// Run implements source.Source. The caller holds the pipeline's lock, so if an old connection of this pipeline still reads the slot, Run ends that
// connection.
//
// Three goroutines share the work: this one reads, decodes and emits; a statusWriter tells the server what was confirmed,
// also while emit blocks; a watch looks at the catalog from time to time.
func (s *Source) Run(ctx context.Context, start source.Start, emit source.Emit) error {
	from, err := pgrepl.ParseLSN(string(start.From))
	if err != nil {
		return fmt.Errorf("start at the checkpoint: %w", err)
	}
	s.confirmed.Store(uint64(from))
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

func (s *Source) run(ctx context.Context, from pgrepl.LSN, start source.Start, emit source.Emit) error {
	watch := &watch{cfg: &s.cfg, every: s.checkEvery, confirmed: &s.confirmed}
	defer watch.close(ctx)
	w, err := s.connect(ctx, watch, from)
	if err != nil {
		return err
	}
	st := &stream{
		cfg: &s.cfg, source: s, wire: w, start: start, emit: emit, binary: s.binary(watch.catalog()),
		status:     newStatusWriter(w.Conn, from, s, &watch.gate),
		watch:      watch,
		relations:  map[uint32]*plannedRelation{},
		dec:        columns.Decoder{MaxMessage: s.cfg.MaxMessage},
		batchState: batchState{done: from, reported: from, measured: from},
	}
	watch.wake = st.status.wake
	start.Begun()
	s.cfg.Logger.Info("reading the log", "slot", s.cfg.Slot, "from", from.String(), "binary", st.binary)
	defer func() { s.seen.Reached(st.status.sent()) }()
	return st.run(ctx)
}

// binary reports whether values are asked for in their binary form.
func (s *Source) binary(cat *catalog.View) bool { return !s.textOnly.Load() && !cat.TextOnly() }

// connect checks that the log can be read from a position, and starts the stream.
//
// All questions but the server's identity go to the watch's connection. A connection that has looked at a table would
// decode old rows of it by the catalog of today, which it has in its caches then: the server does not clear them when a
// stream starts.
func (s *Source) connect(ctx context.Context, watch *watch, from pgrepl.LSN) (*pgrepl.Reader, error) {
	conn, err := s.cfg.ConnectReplication(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx, conn, watch, from); err != nil {
		return nil, errors.Join(err, session.ClosePgConn(ctx, conn))
	}
	return startReplication(ctx, &s.cfg, conn, from, s.binary(watch.catalog()))
}

func (s *Source) prepare(ctx context.Context, conn *pgconn.PgConn, watch *watch, from pgrepl.LSN) error {
	server, err := upstream.Identify(ctx, conn)
	if err != nil {
		return err
	}
	if server.Recovery {
		return upstream.StandbyError("read the log")
	}
	slot, err := watch.slot(ctx, server)
	if err != nil {
		return err
	}
	why, err := upstream.Lost(&s.cfg, slot, server, from)
	if err != nil {
		return err
	}
	if why != "" {
		return fmt.Errorf("read the log from %s: %s: %w", from, why, source.ErrGap)
	}
	if what, fix := upstream.FailoverIdle(&s.cfg, server.Version, slot); what != "" {
		s.idleTold.Do(func() { s.cfg.Logger.Warn(what, "fix", fix) }) //nolint:sloglint // It is one of a few texts, each with its fix.
	}
	watch.encoding = session.EncodingOf(conn)
	if _, err = watch.refresh(ctx); err != nil {
		return err
	}
	return watch.look(ctx)
}

// startReplication takes the connection over from pgconn while it is idle, so that every byte of the stream comes to our
// own buffer, and starts the stream. The connection is closed on errors.
func startReplication(ctx context.Context, c *session.Config, conn *pgconn.PgConn, from pgrepl.LSN, binary bool) (*pgrepl.Reader, error) {
	if err := conn.SyncConn(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start replication: %w", err), session.ClosePgConn(ctx, conn))
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start replication: %w", err), session.ClosePgConn(ctx, conn))
	}
	socket, err := pgrepl.DirectConn(hijacked.Conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start replication: %w", err), hijacked.Conn.Close())
	}
	w := pgrepl.NewReader(socket)
	release := context.AfterFunc(ctx, w.Interrupt)
	defer release()
	options := pgrepl.StartOptions{Slot: c.Slot, Publication: c.Publication, From: from, Binary: binary, Messages: c.Messages != ""}
	if err := w.Start(options); err != nil {
		return nil, errors.Join(fmt.Errorf("start replication: %w", streamError(err)), w.Close())
	}
	return w, nil
}

// segmentName is the name of a piece of the log.
var segmentName = regexp.MustCompile(`\b[0-9A-F]{24}\b`)

// streamError classifies a server's error. If no retry can read on, the position is lost (source.ErrGap).
func streamError(err error) error {
	if pgerr.LacksCharacter(err) {
		return fmt.Errorf("%w: then drop the replication slot while the relay is stopped, since the log has the row as it was; the next start sweeps the tables",
			pgerr.Unsendable(err))
	}
	switch pgerr.State(err) {
	case "55006": // object_in_use
		return fmt.Errorf("%w: stop that reader, or choose another source.slot", err)
	case "54000", "XX000":
		if !tooLargeForServer(err) {
			return err
		}
		// No start would get past that row. A sweep does: it has the server leave large values out, and makes a dead letter of the row.
		return fmt.Errorf("the server cannot send a row, since it is larger than 1 GB in its text or binary form: %w: %w", err, source.ErrGap)
	case "58P01": // a file is not there
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || !segmentName.MatchString(pe.Message) {
			return err // another file, such as the output plugin's during an upgrade: the slot is still good
		}
		fallthrough
	case "55000", // the slot can no longer get changes
		"42704": // no such slot; or the publication did not exist at this place in the log
		return fmt.Errorf("%w: %w", err, source.ErrGap)
	}
	return err
}

// tooLargeForServer reports whether the server failed because a value or a message is larger than it can hold in memory in one piece.
func tooLargeForServer(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && (pe.Code == "54000" || strings.HasPrefix(pe.Message, "invalid memory alloc request size"))
}

// A stream is one Run once it is connected. All of it belongs to the reading goroutine but status and watch.
type stream struct {
	cfg    *session.Config
	source *Source
	wire   *pgrepl.Reader
	status *statusWriter
	watch  *watch
	start  source.Start
	emit   source.Emit
	binary bool

	relations map[uint32]*plannedRelation
	last      *plannedRelation // of the latest insert
	dec       columns.Decoder
	vals      []columns.Value

	open bool // inside a transaction
	txn  pgrepl.Begin
	at   time.Time // its commit time
	n    uint32    // rows of it that the server has sent
	batchState

	ignored       [ignoredKinds]int
	outside       int // messages outside of a transaction since that was logged
	outsideLogged time.Time
	pings         int
	lastPing      time.Time
	lastEmitted   time.Time

	mu      sync.Mutex
	failure error // of the other goroutines
}

// run reads until the end, then ends the other goroutines.
func (st *stream) run(ctx context.Context) error {
	var wg sync.WaitGroup
	watchCtx, cancelWatch := context.WithCancel(ctx)
	wg.Go(func() {
		if err := st.status.run(); err != nil {
			st.fail(err)
		}
	})
	var watching sync.WaitGroup
	watching.Go(func() {
		if err := st.watch.run(watchCtx); err != nil && watchCtx.Err() == nil {
			st.fail(err)
		}
	})
	st.source.attach(st.status)
	release := context.AfterFunc(ctx, st.wire.Interrupt)

	err := st.read(ctx)

	release()
	cancelWatch()
	watching.Wait()
	if ctx.Err() != nil {
		st.watch.lastLooks(ctx, st.status)
	}
	st.source.attach(nil)
	close(st.status.stop)
	wg.Wait()
	st.wire.Drain(stopTimeout)
	closeErr := st.wire.Close()
	if failure := st.failed(); failure != nil && errors.Is(err, pgrepl.ErrInterrupted) && ctx.Err() == nil {
		err = failure
	}
	if err == nil && closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
		err = fmt.Errorf("close replication connection: %w", closeErr)
	}
	return err
}

// fail ends the reading with an error of another goroutine. The first one counts.
func (st *stream) fail(err error) {
	st.mu.Lock()
	if st.failure == nil {
		st.failure = err
	}
	st.mu.Unlock()
	st.wire.Interrupt()
}

func (st *stream) failed() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failure
}

// read is the loop: consume what is in the buffer, emit it, read on.
func (st *stream) read(ctx context.Context) error {
	for {
		typ, body, size, err := st.wire.Next()
		if err != nil {
			return err
		}
		if body != nil {
			if err := st.message(ctx, typ, body); err != nil {
				return err
			}
			continue
		}
		// Nothing complete is left in the buffer.
		deadline, err := st.pause(ctx)
		if err != nil {
			return err
		}
		if size+5 > st.wire.Size() {
			// The large message may fill the memory: emit what was held back first.
			if err := st.flush(ctx); err != nil {
				return err
			}
			if err := st.large(ctx, typ, size); err != nil {
				return err
			}
			continue
		}
		if err := st.wire.Fill(deadline); err != nil && !errors.Is(err, pgrepl.ErrDeadline) {
			return errors.Join(err, st.flush(ctx)) // what was held back is good
		}
	}
}

// message handles one message of the protocol.
func (st *stream) message(ctx context.Context, typ byte, body []byte) error {
	switch typ {
	case 'd':
		return st.copyData(ctx, body)
	case 'E':
		return errors.Join(st.serverError(ctx, pgrepl.ParseError(body)), st.flush(ctx))
	case 'N':
		return st.notice(pgrepl.ParseError(body))
	case 'S': // a parameter changed
		return nil
	case 'c', 'C', 'Z':
		return errors.New("read replication stream: the server ended it")
	}
	return fmt.Errorf("read replication stream: message %q: %w", typ, pgrepl.ErrProtocol)
}

// serverError is the end of the stream by an error of the server.
func (st *stream) serverError(ctx context.Context, err error) error {
	if st.binary && pgerr.State(err) == "42883" {
		// A column has a type without a binary form, such as some arrays. TextOnly did not find it, perhaps because no message is made of that column,
		// but the server sends it all the same.
		st.source.textOnly.Store(true)
		return fmt.Errorf("read replication stream: %w: reading again, with values as text", err)
	}
	if pgerr.State(err) == "42704" {
		// The publication did not exist at this place in the log. If it does not exist now, no new position heals that.
		if _, checkErr := st.watch.refresh(ctx); errors.Is(checkErr, source.ErrStop) {
			return checkErr
		}
	}
	return fmt.Errorf("read replication stream: %w", streamError(err))
}

// notice looks for the only notice that matters: from version 18 on, a publication that did not exist at this place in the
// log is a warning, and its rows are left out.
func (st *stream) notice(n *pgconn.PgError) error {
	// The text may be in any language, with that language's quotes around the publication's name, so look only for the name.
	if n.Code == "55000" && (n.Routine == "LoadPublications" || strings.Contains(n.Message, st.cfg.Publication)) {
		return fmt.Errorf("read replication stream: the publication was created after this place in the log: %w: %w", n, source.ErrGap)
	}
	return nil
}
