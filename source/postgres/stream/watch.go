package stream

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	"github.com/tailbox/tailbox/source/postgres/upstream"
)

const (
	// watchInterval is how often the log's end is asked for, checkInterval how often the catalog is read: a table that was
	// dropped or renamed leaves the publication without a word in the log.
	watchInterval = 5 * time.Second
	checkInterval = time.Minute
)

// A watch looks at the server on an ordinary connection, beside the stream. It is safe for concurrent use.
type watch struct {
	cfg   *session.Config
	every time.Duration // between checks of the catalog
	// encoding is that of the database, once the log is about to be read.
	encoding session.Encoding
	// logEnd is where the server's log ended lately.
	logEnd atomic.Uint64
	// confirmed is the source's. gate bounds what of it is sent to the server, and wake has it sent.
	confirmed *atomic.Uint64
	gate      standbyGate
	wake      func()

	// awaySince is the time since which standbys that the server waits for have been away; awayTold: a warning about it was logged.
	awaySince time.Time
	awayTold  bool

	mu   sync.Mutex
	conn *pgx.Conn
	cat  *catalog.View
}

// catalog is the catalog as it was read last.
func (w *watch) catalog() *catalog.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cat
}

// refresh reads and checks the catalog.
func (w *watch) refresh(ctx context.Context) (*catalog.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	cat, err := catalog.Read(ctx, w.cfg, w.conn.PgConn())
	if err != nil {
		return nil, err
	}
	w.cat = cat
	return cat, nil
}

// slot waits for the slot to be free, at the same server as a replication connection: an address may lead to another one a
// moment later.
func (w *watch) slot(ctx context.Context, server *upstream.Server) (*upstream.Slot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	rows, err := session.Query(ctx, w.conn.PgConn(), "SELECT system_identifier FROM pg_catalog.pg_control_system()")
	if err != nil {
		return nil, fmt.Errorf("identify server: %w", err)
	}
	if rows[0][0] != server.SystemID {
		return nil, fmt.Errorf("identify server: two connections to the same address led to servers %s and %s", server.SystemID, rows[0][0])
	}
	return upstream.WaitFree(ctx, w.cfg, w.conn.PgConn())
}

// kind finds the kind of a type, and the modifier that a domain gives it, or -1.
func (w *watch) kind(ctx context.Context, typeOID uint32) (k catalog.Kind, modifier int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k, modifier, ok := w.cat.Kind(typeOID); ok {
		return k, modifier, nil
	}
	if err := w.connect(ctx); err != nil {
		return catalog.KindOther, -1, err
	}
	return catalog.DescribeType(ctx, w.conn.PgConn(), typeOID)
}

// translate turns what the server sends as it was written, in the database's encoding, into UTF-8. What is no text is left as it is.
func (w *watch) translate(ctx context.Context, content []byte) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	rows, err := session.Query(ctx, w.conn.PgConn(), fmt.Sprintf("SELECT pg_catalog.convert('\\x%x', %s, 'UTF8')", content, sqltext.Literal(string(w.encoding))))
	switch {
	case strings.HasPrefix(pgerr.State(err), "22"):
		return content, nil
	case err != nil:
		return nil, fmt.Errorf("translate a logical message: %w", err)
	}
	text, err := hex.DecodeString(strings.TrimPrefix(rows[0][0], `\x`))
	if err != nil {
		return nil, fmt.Errorf("translate a logical message: %w", err)
	}
	return text, nil
}

func (w *watch) connect(ctx context.Context) (err error) {
	if w.conn != nil {
		return nil
	}
	if w.conn, err = w.cfg.Connect(ctx); err != nil {
		return err
	}
	_, err = w.conn.Exec(ctx, session.NoTimeouts) // the session is idle for long periods
	return err
}

// close ends the connection. It ignores the error: the connection was only read from.
func (w *watch) close(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = session.Close(ctx, w.conn)
	}
}

// run watches until ctx ends (nil) or something is wrong.
func (w *watch) run(ctx context.Context) error {
	checked := time.Now()
	for {
		if err := w.look(ctx); err != nil {
			return ignoreDone(ctx, err)
		}
		every := watchInterval
		if w.gate.passed.Load() != math.MaxUint64 {
			every = standbyEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(every, w.every)):
		}
		if time.Since(checked) < w.every {
			continue
		}
		if _, err := w.refresh(ctx); err != nil {
			return ignoreDone(ctx, err)
		}
		checked = time.Now()
	}
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// look asks where the log ends, and up to where the standbys that the server waits for have the log.
func (w *watch) look(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.connect(ctx); err != nil {
		return err
	}
	confirmed := pgrepl.LSN(w.confirmed.Load()) // before the questions
	rows, err := session.Query(ctx, w.conn.PgConn(), "SELECT pg_catalog.pg_current_wal_flush_lsn()")
	if err != nil {
		return fmt.Errorf("ask for the log's end: %w", err)
	}
	end, err := pgrepl.ParseLSN(rows[0][0])
	if err != nil {
		return fmt.Errorf("ask for the log's end: %w", err)
	}
	w.logEnd.Store(uint64(end))
	list, err := upstream.Standbys(ctx, w.cfg, w.conn.PgConn())
	if err != nil {
		return err
	}
	w.tell(list, time.Now())
	if w.gate.look(confirmed, end, list) && w.wake != nil {
		w.wake()
	}
	return nil
}
