package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/binlog"
	"github.com/tailbox/tailbox/source/mysql/server"
)

const (
	// watchInterval is how often the log's end is asked for, checkInterval how often the tables are looked at.
	watchInterval = 5 * time.Second
	checkInterval = time.Minute
)

// A watch looks at the server on an ordinary connection, beside the stream. It is safe for concurrent use.
type watch struct {
	cfg    *server.Config
	cancel context.CancelFunc
	over   chan struct{}
	// files are those of the log, lately.
	files atomic.Pointer[[]server.LogFile]
	// waits is the ordinal of the place at which the stream waits for more, 0 while it does not wait. Before is what the last look
	// has found.
	waits  atomic.Uint64
	before struct{ waits, end uint64 }

	mu      sync.Mutex
	session *server.Conn
	cat     *knownTables
	wire    *binlog.Reader
	failure error
}

// newWatch connects, and reads the catalog.
func (s *Source) newWatch(ctx context.Context) (*watch, error) {
	w := &watch{cfg: &s.cfg, over: make(chan struct{})}
	if _, err := w.refresh(ctx); err != nil {
		return nil, errors.Join(err, w.closeSession(ctx))
	}
	watching, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	go w.run(watching)
	return w, nil
}

// knownTables is the knownTables as it was read last.
func (w *watch) catalog() *knownTables {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cat
}

// refresh reads and checks the catalog.
func (w *watch) refresh(ctx context.Context) (*knownTables, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	cat, err := readCatalog(ctx, w.cfg, w.session)
	if err != nil {
		return nil, err
	}
	end, err := server.ReadLogEnd(ctx, w.session) // afterwards: a change stands in the log before it is seen
	if err != nil {
		return nil, err
	}
	cat.end = end.Position
	w.cat = cat
	return cat, nil
}

func (w *watch) connect(ctx context.Context) (err error) {
	if w.session != nil && !w.session.Broken {
		return nil
	}
	w.session, err = w.cfg.Connect(ctx, w.cfg.URL)
	return err
}

// notify tells which reader to interrupt when an operator has to act.
func (w *watch) notify(wire *binlog.Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wire = wire
}

func (w *watch) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure
}

// run looks at the server until ctx ends. What only this connection suffers from is none of the stream's business.
func (w *watch) run(ctx context.Context) {
	defer close(w.over)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	checked := time.Now()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(checked) < checkInterval {
			continue
		}
		checked = time.Now()
		if _, err := w.refresh(ctx); errors.Is(err, source.ErrStop) && ctx.Err() == nil {
			w.mu.Lock()
			w.failure = err
			wire := w.wire
			w.mu.Unlock()
			if wire != nil {
				wire.Interrupt()
			}
			return
		}
	}
}

// look asks where the log ends, and whether the stream reads that log.
func (w *watch) look(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.connect(ctx) != nil {
		return
	}
	if files, err := server.ReadLogFiles(ctx, w.session); err == nil {
		w.files.Store(&files)
	}
	waits := w.waits.Load() // before the log's end is asked for
	if end, err := server.ReadLogEnd(ctx, w.session); err == nil {
		w.compare(waits, end.Position)
	}
}

// errOtherLog ends a stream that reads a log that the server does not write any more.
var errOtherLog = errors.New("read the binlog: the server goes on without this connection: its log was reset")

// compare finds out that the server has begun its log anew. It lets a stream go on waiting at the end of the old one, for ever: then
// the log ends before the place where the stream waits, or goes on behind it and nothing comes.
func (w *watch) compare(waits uint64, end binlog.Position) {
	now := struct{ waits, end uint64 }{waits, end.Ordinal()}
	stalled := waits != 0 && (now.end < waits || w.before.waits == waits && w.before.end > waits)
	w.before = now
	if stalled && w.failure == nil {
		w.failure = errOtherLog
		if w.wire != nil {
			w.wire.Interrupt()
		}
	}
}

// behind is how much log there was after a place when the server was asked last, in bytes.
func (w *watch) behind(at binlog.Position) int64 {
	files := w.files.Load()
	if files == nil {
		return 0
	}
	return bytesBehind(*files, at)
}

// bytesBehind is how much of the log there is after a place.
func bytesBehind(files []server.LogFile, at binlog.Position) (n int64) {
	for _, f := range files {
		switch {
		case f.Start.File > at.File:
			n += int64(f.Size)
		case f.Start.File == at.File && f.Size > at.Pos:
			n += int64(f.Size - at.Pos)
		}
	}
	return n
}

// Lag is how much of the log there is after a checkpoint, in bytes; 0 if the checkpoint belongs to another server, where that cannot be told.
func Lag(files []server.LogFile, checkpoint source.Resume, serverID string) int64 {
	at, err := parseResume(checkpoint)
	if err != nil || at.server != serverID {
		return 0
	}
	return bytesBehind(files, at.place)
}

func (w *watch) close(ctx context.Context) error {
	w.cancel()
	<-w.over
	return w.closeSession(ctx)
}

func (w *watch) closeSession(ctx context.Context) error {
	if w.session == nil {
		return nil
	}
	return w.session.Close(ctx)
}
