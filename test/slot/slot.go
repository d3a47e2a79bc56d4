// Package slot reads a logical slot of Postgres through the replication protocol, as simply as that can be done: the end-to-end
// tests learn the commit order from it, and the benchmark measures the relay against it. It shares no code with the product.
package slot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// A Reader reads one slot with pgoutput, protocol 1. One goroutine calls Next; the other methods may be called by any.
type Reader struct {
	conn *pgconn.PgConn

	confirmed atomic.Uint64
	received  atomic.Uint64
	asked     atomic.Bool
	every     time.Duration
}

// Open connects to a database (a URL; replication=database is added) and starts to read from where the slot stands.
func Open(ctx context.Context, url, slot, publication string, binaryFormat bool) (*Reader, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read slot %s: %w", slot, err)
	}
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("read slot %s: %w", slot, err)
	}
	options := fmt.Sprintf(`"proto_version" '1', "publication_names" '%s'`, publication)
	if binaryFormat {
		options += `, "binary" 'true'`
	}
	command := fmt.Sprintf(`START_REPLICATION SLOT "%s" LOGICAL 0/0 (%s)`, slot, options)
	conn.Frontend().SendQuery(&pgproto3.Query{String: command})
	if err := conn.Frontend().Flush(); err != nil {
		return nil, errors.Join(fmt.Errorf("read slot %s: %w", slot, err), conn.Close(ctx))
	}
	r := &Reader{conn: conn, every: 100 * time.Millisecond}
	for {
		m, err := conn.ReceiveMessage(ctx)
		if err == nil {
			switch m := m.(type) {
			case *pgproto3.CopyBothResponse:
				return r, nil
			case *pgproto3.ErrorResponse:
				err = pgconn.ErrorResponseToPgError(m)
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read slot %s: %w", slot, err), conn.Close(ctx))
		}
	}
}

// Next returns the next message of pgoutput; its bytes are valid until the next call. It returns none, and no error, when
// nothing came for a while. It sends what was confirmed.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, r.every)
		m, err := r.conn.ReceiveMessage(waiting)
		cancel()
		if err != nil {
			if pgconn.Timeout(err) && ctx.Err() == nil {
				return nil, r.status(r.asked.Swap(false))
			}
			return nil, fmt.Errorf("read slot: %w", err)
		}
		piece, err := r.take(m)
		if piece != nil || err != nil {
			return piece, err
		}
	}
}

// Stream calls each with every message of pgoutput until it returns false. It waits without bounds and confirms only when the
// server asks or each does: this is the fastest way to read.
func (r *Reader) Stream(each func(piece []byte) bool) error {
	for {
		m, err := r.conn.ReceiveMessage(context.Background())
		if err != nil {
			return fmt.Errorf("read slot: %w", err)
		}
		piece, err := r.take(m)
		if err != nil {
			return err
		}
		if piece != nil && !each(piece) {
			return nil
		}
	}
}

// take returns what a message of the protocol holds of pgoutput; nil if nothing.
func (r *Reader) take(m pgproto3.BackendMessage) ([]byte, error) {
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return nil, pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyData:
		switch m.Data[0] {
		case 'w':
			return m.Data[25:], nil
		case 'k':
			r.received.Store(binary.BigEndian.Uint64(m.Data[1:]))
			if m.Data[17] == 1 {
				return nil, r.status(false)
			}
		}
	}
	return nil, nil
}

// Confirm notes that everything before an LSN may be discarded. It is sent with the next status.
func (r *Reader) Confirm(lsn uint64) { r.confirmed.Store(lsn) }

// Status sends what was confirmed. It is called by the goroutine that reads.
func (r *Reader) Status() error { return r.status(false) }

// Ask makes Next ask the server how far it has come, which Received then tells.
func (r *Reader) Ask() { r.asked.Store(true) }

// Received is the end of the log that the server has sent, as of its last keepalive.
func (r *Reader) Received() uint64 { return r.received.Load() }

func (r *Reader) status(ask bool) error {
	b := make([]byte, 34)
	b[0] = 'r'
	confirmed := r.confirmed.Load()
	for at := 1; at <= 17; at += 8 {
		binary.BigEndian.PutUint64(b[at:], confirmed)
	}
	binary.BigEndian.PutUint64(b[25:], uint64(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds()))
	if ask {
		b[33] = 1
	}
	r.conn.Frontend().Send(&pgproto3.CopyData{Data: b})
	if err := r.conn.Frontend().Flush(); err != nil {
		return fmt.Errorf("confirm slot: %w", err)
	}
	return nil
}

// Close ends the connection.
func (r *Reader) Close(ctx context.Context) error { return r.conn.Close(ctx) }
