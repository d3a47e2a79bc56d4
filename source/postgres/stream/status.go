package stream

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tailbox/tailbox/source/batches"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

const (
	// statusInterval is how often the server hears from the relay at least; it gives up after 10 s.
	statusInterval = 3 * time.Second
	// statusGap is the least time between two status updates, however often positions are confirmed.
	statusGap = 100 * time.Millisecond
	// askInterval is how often the server is asked for its position while a barrier waits: an idle server says nothing.
	askInterval = 200 * time.Millisecond
	// writeTimeout bounds one write; stopTimeout the last ones.
	writeTimeout = 10 * time.Second
	stopTimeout  = time.Second
)

// A statusWriter is the writing half of a replication connection, and its only writer. It tells the server what was
// received and confirmed, in time whatever the reading half is doing: while emit blocks nobody reads, but the server
// keeps a reader that goes on reporting.
type statusWriter struct {
	conn pgrepl.Conn
	// start is where the stream began. received is the highest position that the server sent here. Nothing above the higher of both is reported as
	// confirmed, because the server would believe it, and never send what lies between.
	start    pgrepl.LSN
	received atomic.Uint64
	// confirmed and barriers are the source's: they outlive the connection.
	confirmed *atomic.Uint64
	barriers  *batches.Barriers
	// gate decides how much of confirmed may be sent, because of standbys.
	gate *standbyGate
	// armed: an update is due, and the writer knows. Kick wakes it.
	armed atomic.Bool
	kick  chan struct{}
	stop  chan struct{}
}

func newStatusWriter(conn pgrepl.Conn, start pgrepl.LSN, s *Source, gate *standbyGate) *statusWriter {
	w := &statusWriter{conn: conn, start: start, confirmed: &s.confirmed, barriers: &s.barriers, gate: gate,
		kick: make(chan struct{}, 1), stop: make(chan struct{})}
	w.received.Store(uint64(start))
	return w
}

// wake asks for an update soon. It does not block, and may be called from any goroutine.
func (w *statusWriter) wake() {
	if w.armed.Swap(true) {
		return
	}
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// run sends updates until stop is closed, then the last one and the end of the stream.
func (w *statusWriter) run() error {
	var last time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return w.finish()
		case <-w.kick:
		case <-timer.C:
		}
		if wait := statusGap - time.Since(last); wait > 0 {
			timer.Reset(wait)
			continue
		}
		w.armed.Store(false)
		ask := w.barriers.Waiting()
		if err := w.send(w.status(nil, ask), writeTimeout); err != nil {
			return err
		}
		last = time.Now()
		if ask {
			timer.Reset(askInterval)
		} else {
			timer.Reset(statusInterval)
		}
	}
}

// finish sends what was confirmed last, the end of the COPY and of the connection. The server handles them in this order.
func (w *statusWriter) finish() error {
	b := w.status(nil, false)
	return w.send(pgrepl.AppendEnd(b), stopTimeout)
}

// sent is the highest position that this connection was sent.
func (w *statusWriter) sent() pgrepl.LSN { return max(w.start, pgrepl.LSN(w.received.Load())) }

// wanted returns what the relay has confirmed, at most sent.
func (w *statusWriter) wanted() pgrepl.LSN { return min(pgrepl.LSN(w.confirmed.Load()), w.sent()) }

// flush returns the part of wanted that the gate lets pass.
func (w *statusWriter) flush() pgrepl.LSN { return min(w.wanted(), pgrepl.LSN(w.gate.passed.Load())) }

// status appends a standby status update. It reports as written what was received, because the server would send a keepalive at each flush of its log
// if that were below what it sent.
func (w *statusWriter) status(b []byte, ask bool) []byte {
	flush := w.flush()
	return pgrepl.AppendStatus(b, max(flush, pgrepl.LSN(w.received.Load())), flush, time.Now(), ask)
}

func (w *statusWriter) send(b []byte, timeout time.Duration) error {
	err := w.conn.SetWriteDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = w.conn.Write(b)
	}
	if err != nil {
		return fmt.Errorf("send status to the server: %w", err)
	}
	return nil
}
