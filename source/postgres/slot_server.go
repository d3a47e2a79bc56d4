package postgres

import (
	"fmt"
	"strings"
	"sync"

	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// A serverID names a server in checkpoints: SYSTEM/TIMELINE@STARTED, and +messages.
//
// A snapshot of the server's volume that is started again has the same system id and timeline, its slots, and a checkpoint from the same moment: from
// there on it writes other messages at places of the log that consumers have seen. Only its start differs. So a start that nobody has watched begins a new Log:
// no position is used twice. A server that was only restarted looks the same, and a new Log does it no harm.
type serverID struct {
	history string // SYSTEM/TIMELINE
	started string // "" in checkpoints of older versions
	// messages: rows are numbered together with emitted messages. With and without them the same row has another number, and what a checkpoint
	// names as settled beyond its position would be other rows.
	messages bool
}

const withMessages = "+messages"

func parseServerID(text string) (id serverID) {
	text, id.messages = strings.CutSuffix(text, withMessages)
	id.history, id.started, _ = strings.Cut(text, "@")
	return id
}

func (id serverID) String() string {
	text := id.history
	if id.started != "" {
		text += "@" + id.started
	}
	if id.messages {
		text += withMessages
	}
	return text
}

// startedSQL is when the server was started, in microseconds since 1970.
const startedSQL = "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint::text"

// A witness is what a process has seen of the server. One that was there before and after a restart knows how far the log was read: a server whose log
// does not end before that was not set back, and positions go on without a new Log, so that consumers can drop duplicates by them.
type witness struct {
	mu   sync.Mutex
	id   serverID
	read pgrepl.LSN
}

// note takes note of the server, whose log ends at end.
func (w *witness) note(id serverID, end pgrepl.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id.history != id.history || end < w.read {
		w.read = 0 // of another log
	}
	w.id = id
}

// reached notes how far the log was read.
func (w *witness) reached(at pgrepl.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read = max(w.read, at)
}

// same tells whether positions of a checkpoint are good for the server as it is now, whose log ends at end.
func (w *witness) same(before, now serverID, end pgrepl.LSN) bool {
	if before.history != now.history || before.messages != now.messages {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id.history == now.history && end < w.read {
		return false
	}
	return before.started == now.started || before.started == "" || w.id.history == before.history && w.id.started == before.started
}

// errStandby is for what only a primary can do.
func errStandby(doing string) error {
	return fmt.Errorf("%s: the server is a standby, which writes nothing: source.url must lead to the primary, such as with target_session_attrs=read-write and all hosts", doing)
}
