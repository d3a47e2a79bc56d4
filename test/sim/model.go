package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// A message is what the application wrote, and what the oracle knows about it.
type message struct {
	id, typ, group, key string
	table               *table
	to                  []int // indexes of its sinks, ascending
	lsn                 uint64
	n                   uint32
	txn                 *txn
	logged              bool // false: the log does not hold it (a publication was missing)
	available           time.Time
	fault               string
	poison              [sinks]int // poisoned: how the sink answers until the quiet phase
	committed           time.Time

	// The user's row.
	present bool
	status  string

	// What the oracle follows. unordered: the order promise is not about it (not from the log, reset by hand, scheduled).
	unordered bool
	parked    []*parked
	over      bool // of a script: delivered and settled, and nothing can change that
	reset     bool // an operator set it back to pending, by SQL
	acted     bool // on_delivered or a view of parked deliveries was applied
	at        [sinks]fate
	// stray is the fate at the sink "", for messages that cannot be routed or decoded.
	stray fate
}

// poison kinds.
const (
	healthy = iota
	poisonPermanent
	poisonRejected
	poisonUnavailable
	poisonUnreachable
	poisonMisconfigured
	poisons = iota - 1
)

// poisonError is how a sink answers a poisoned message.
func poisonError(kind int) error {
	switch kind {
	case poisonPermanent:
		return sink.Permanent(errors.New("bad request"))
	case poisonUnavailable:
		return sink.Unavailable(errors.New("bad gateway"))
	case poisonUnreachable:
		return sink.Unreachable(errors.New("connection reset"))
	case poisonMisconfigured:
		return sink.Misconfigured(errors.New("forbidden"))
	}
	return errors.New("internal error")
}

// A fate is what became of a message at one sink.
type fate struct {
	delivered int       // times it reached the sink
	reached   time.Time // when first
	// fresh counts those since an operator set the row back to pending.
	fresh int
	// unheard: it reached the sink, and the relay was not told so (an error, no answer, killed).
	unheard bool
	// ackInst and ackRun are the relay's run that heard it last.
	ackInst *instance
	ackRun  int
	acked   bool
	// durable is the step in which the database knew that the delivery is settled; 0 = not.
	durable int
	// failures were heard, of which counted may count against the message; failed is how many calls had begun when the last was heard.
	failures, counted, failed int
	// gone: the application removed the row and the log was lost, before it was delivered.
	gone bool
	// passed: its group went on without it.
	passed bool
	// position of its last delivery.
	position  outbox.Position
	positions int
}

// Words of the status column.
const (
	pending   = "pending"
	delivered = "delivered"
)

// A txn is a transaction of the application.
type txn struct {
	xid     uint64
	visible bool
}

// An entry is a transaction, or a barrier, in the log.
type entry struct {
	lsn      uint64
	messages []*message
	barrier  string
}

// A slot is the server's side of a reader: confirmed may go back to flushed when the server restarts.
type slot struct {
	confirmed, flushed uint64
	reader             *tail
}

// server is a model of a database server with its log and the tables of application and relay.
type server struct {
	w        *World
	id       int
	lsn      uint64 // the log's end
	log      []entry
	slot     *slot // nil: lost
	txns     []*txn
	barriers int
	sessions int
	holder   *session

	checkpoint *checkpoint.Checkpoint
	saved      time.Time
	unclean    int
	started    checkpoint.CrashCandidate
	acceptGap  bool
	parked     []*parked
	requests   []*request
	held       []checkpoint.Lane
	paused     []string
	resumes    map[source.Resume]bool // that a driver made
}

func (s *server) init(w *World) {
	*s = server{w: w, id: 1, lsn: 100, resumes: map[source.Resume]bool{}}
	if w.plan.initialised {
		s.slot = &slot{confirmed: s.lsn, flushed: s.lsn}
		s.checkpoint = &checkpoint.Checkpoint{SourceID: s.sourceID(), Resume: s.resume(s.lsn), Log: 1}
		s.saved = time.Now()
	}
}

func (s *server) sourceID() string { return "server/" + strconv.Itoa(s.id) }

// resume makes the text of a place in the log.
func (s *server) resume(lsn uint64) source.Resume {
	r := source.Resume(fmt.Sprintf("lsn:%06d", lsn))
	s.resumes[r] = true
	return r
}

// place reads the text of a place in the log; "" is 0.
func place(r source.Resume) uint64 {
	if len(r) < 5 {
		return 0
	}
	n, _ := strconv.ParseUint(string(r[4:]), 10, 64)
	return n
}

// grow is log that has nothing to do with the outbox.
func (s *server) grow() { s.lsn += 1 + uint64(s.w.rng.IntN(20)) }

// commit appends a transaction to the log; it becomes visible now or later.
func (s *server) commit(ms []*message, logged bool) {
	s.grow()
	t := &txn{xid: uint64(700 + len(s.txns)), visible: s.w.rng.IntN(100) >= s.w.plan.lateVisible}
	s.txns = append(s.txns, t)
	e := entry{lsn: s.lsn}
	for i, m := range ms {
		m.txn, m.lsn, m.n, m.logged, m.present, m.status = t, s.lsn, uint32(i), logged, true, pending
		m.committed = time.Now()
		if !logged {
			m.unordered = true
		} else {
			e.messages = append(e.messages, m)
		}
	}
	if logged {
		s.log = append(s.log, e)
	}
	s.w.messages = append(s.w.messages, ms...)
}

// barrier writes one through the log.
func (s *server) barrier() (string, uint64) {
	s.grow()
	s.barriers++
	b := "barrier-" + strconv.Itoa(s.barriers)
	s.log = append(s.log, entry{lsn: s.lsn, barrier: b})
	return b, s.lsn
}

func (s *server) message(table, id string) *message {
	for _, m := range s.w.messages {
		if m.id == id && m.table.name == table {
			return m
		}
	}
	return nil
}

// kill ends a session: its locks and its power to write go with it.
func (s *server) kill(x *session, why string) {
	if x.dead {
		return
	}
	s.w.logf("session %d dies: %s", x.id, why)
	x.dead = true
	if s.holder == x {
		s.holder = nil
	}
}

// idle ends sessions that were idle for longer than the server allows.
func (s *server) idle() {
	if h := s.holder; h != nil && time.Since(h.last) > 10*time.Second {
		s.kill(h, "idle for 10 s")
	}
}

// restart is a restart of the server: connections are gone, and what was confirmed lately is forgotten.
func (s *server) restart() {
	if s.holder != nil {
		s.kill(s.holder, "the server restarts")
	}
	if s.slot == nil {
		return
	}
	s.slot.confirmed = s.slot.flushed
	s.cut()
}

// cut ends the reader's connection.
func (s *server) cut() {
	if s.slot != nil && s.slot.reader != nil {
		s.slot.reader.cut = true
		s.slot.reader = nil
	}
}

// lose is the loss of the slot.
func (s *server) lose() {
	s.cut()
	s.slot = nil
	s.w.stats.Gaps++
}

// build makes what the source emits for a message. Nothing of it is shared with the model.
func (s *server) build(m *message, at outbox.Position, txn uint64) *outbox.Message {
	om := &outbox.Message{
		ID: m.id, Type: m.typ, Topic: "t-" + m.typ, Group: m.group, Key: []byte(m.key), Payload: []byte("payload of " + m.id),
		Table: m.table.name, Position: at, CommitTime: m.committed, Txn: txn, AvailableAt: m.available,
	}
	switch m.fault {
	case outbox.FaultTooLarge:
		om.Payload = nil
		om.Fault = &outbox.Fault{Class: m.fault, Reason: "the row is larger than max_message"}
	case outbox.FaultUndecodable:
		om.Fault = &outbox.Fault{Class: m.fault, Reason: "column payload: not understood"}
	}
	return om
}

// pendingRow reports whether the table says that a message is still to be delivered.
func (m *message) pendingRow() bool { return m.present && m.status == pending }

// sinksOf lists the fates that count for a message.
func (m *message) fates() []*fate {
	var fs []*fate
	for _, i := range m.to {
		fs = append(fs, &m.at[i])
	}
	if m.strays() {
		fs = append(fs, &m.stray)
	}
	return fs
}

// strays reports whether a message is expected under the sink "".
func (m *message) strays() bool { return len(m.to) == 0 || m.fault == outbox.FaultUndecodable }

func (m *message) String() string {
	return fmt.Sprintf("%s:%s(%s,%q,%d.%d)", m.table.name, m.id, m.typ, m.group, m.lsn, m.n)
}

// fate returns the fate at a sink; unknown sinks and "" share the stray one.
func (m *message) fate(sink string) *fate {
	if i := sinkIndex(sink); i >= 0 && slices.Contains(m.to, i) {
		return &m.at[i]
	}
	return &m.stray
}
