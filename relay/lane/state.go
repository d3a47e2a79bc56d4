package lane

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBug is the error for an event that a state does not allow.
var ErrBug = errors.New("bug in tailbox: please report it")

// A Mode says which deliveries a lane may send, and where new ones from the tail go.
type Mode uint8

// The modes of a lane.
const (
	noMode     Mode = iota // no transition leads here
	Open                   // the tail's deliveries are sent
	Behind                 // the database holds deliveries that come first (R4): the tail's are parked behind them
	Polled                 // the poller's are sent, and the database holds more: the tail's are parked behind these
	LastPage               // the poller's are sent, and the database holds no more: the tail's wait in memory (R7)
	Held                   // an operator holds the group, of which the database holds nothing: nothing is sent
	HeldBehind             // an operator holds the group, of which the database holds deliveries: nothing is sent
	modes
)

// String returns the name that an error shows.
func (m Mode) String() string {
	return [...]string{"none", "open", "behind", "polled", "last page", "held", "held behind"}[m]
}

// An Operation is something that is under way in a lane. Several can be under way at once: while a run of the poller's is in flight, a settlement may
// park what has arrived behind it. transitions says which can.
type Operation uint16

// The operations in a lane.
const (
	Ready    Operation = 1 << iota // the lane stands in its destination's list: it has something to send
	InFlight                       // the sink has a run of it
	Parking                        // its queue must be parked, because of failure
	Listed                         // the lane stands in the engine's list of lanes to park
	Settling                       // a settlement that is not durable yet parks deliveries of it
	Changing                       // new states of its parked deliveries are not durable yet
	Paging                         // its next page must be read, or is being read
	Frozen                         // an operator's request will change it: no run starts
	Touched                        // something about it has changed, and what follows must be found out
)

// String returns the names of all operations of a set.
func (o Operation) String() string {
	if o == 0 {
		return "idle"
	}
	var names []string
	for i, name := range [...]string{"ready", "in flight", "parking", "listed", "settling", "changing", "paging", "frozen", "touched"} {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// An Event changes the state of a lane.
type Event uint8

// The events that change a lane.
const (
	EvOffer       Event = iota // the lane has something to send
	EvWithdraw                 // it has left its destination's list without a run
	EvSend                     // a run starts
	EvAnswer                   // the run has ended
	EvFail                     // the queue must be parked
	EvList                     // the lane must be parked, or its backlog must
	EvUnlist                   // they need not be parked any more
	EvParkQueue                // a settlement takes from the queue
	EvParkBacklog              // a settlement takes from the backlog only
	EvParkBeside               // a settlement takes from the backlog, behind a run of the poller's that is in flight
	EvParked                   // the settlement is durable, and the lane goes on behind what it parked
	EvSkipped                  // the settlement is durable, and the lane goes on as if the head had been delivered
	EvLoad                     // the poller brings a parked delivery
	EvChange                   // a parked delivery has a new state
	EvChanged                  // all new states are durable
	EvWantPage                 // all that the poller brought is delivered: there may be more
	EvDropPage                 // the next page is not read after all
	EvPage                     // the next page is being read
	EvMore                     // it was read, and is not the last one
	EvLast                     // it was read, and is the last one
	EvUnload                   // the poller's deliveries have left memory
	EvBlock                    // the database holds deliveries that come first
	EvReopen                   // the database holds nothing that comes first
	EvHold                     // an operator holds the group
	EvUnhold                   // the operator has released it
	EvFreeze                   // a request will change the lane
	EvThaw                     // the request has changed the lane
	EvTouch                    // something about the lane has changed
	EvWork                     // what follows from that is found out
	events
)

// String returns the name that an error shows.
func (ev Event) String() string {
	return [...]string{"offer", "withdraw", "send", "answer", "fail", "list", "unlist", "park queue", "park backlog", "park beside", "parked", "skipped", "load", "change",
		"changed", "want page", "drop page", "page", "more", "last", "unload", "block", "reopen", "hold", "unhold", "freeze", "thaw", "touch", "work"}[ev]
}

// A transition says in which states an event is allowed, and which state follows.
type transition struct {
	to      [modes]Mode // by the mode before; noMode: the event is not allowed
	needs   Operation   // must be under way
	without Operation   // must not be under way
	ends    Operation
	starts  Operation
}

// sends are the modes in which runs start, polls those with deliveries of the poller, and anyMode is every mode; the event keeps the mode.
var (
	sends   = [modes]Mode{Open: Open, Polled: Polled, LastPage: LastPage}                                                     //nolint:gochecknoglobals // a table that nobody changes
	polls   = [modes]Mode{Polled: Polled, LastPage: LastPage}                                                                 //nolint:gochecknoglobals // a table that nobody changes
	anyMode = [modes]Mode{Open: Open, Behind: Behind, Polled: Polled, LastPage: LastPage, Held: Held, HeldBehind: HeldBehind} //nolint:gochecknoglobals // a table that nobody changes
)

// transitions are all changes of a lane's state that there are.
//
//nolint:gochecknoglobals // a table that nobody changes
var transitions = [events]transition{
	EvOffer:    {to: sends, without: Ready | InFlight | Parking | Settling | Frozen, starts: Ready},
	EvWithdraw: {to: anyMode, needs: Ready, ends: Ready},
	EvSend:     {to: sends, needs: Ready, without: InFlight | Parking | Settling | Frozen, ends: Ready, starts: InFlight},
	// A run may be in flight when its lane is held or blocked: the lane was created after an operator's request froze the group's other lanes, or the
	// log repeats a message that is parked.
	EvAnswer: {to: anyMode, needs: InFlight, ends: InFlight},

	EvFail:   {to: [modes]Mode{Open: Open, Behind: Behind, Held: Held, HeldBehind: HeldBehind}, without: Ready | InFlight | Parking | Settling, starts: Parking},
	EvList:   {to: anyMode, without: Listed | Settling, starts: Listed},
	EvUnlist: {to: anyMode, needs: Listed, ends: Listed},
	// What is in flight may be delivered: it must not be parked as if it were not.
	EvParkQueue:   {to: [modes]Mode{Open: Open, Behind: Behind, Held: Held, HeldBehind: HeldBehind}, needs: Listed, without: InFlight | Settling, ends: Listed, starts: Settling},
	EvParkBacklog: {to: anyMode, needs: Listed, without: InFlight | Settling, ends: Listed, starts: Settling},
	EvParkBeside:  {to: polls, needs: Listed | InFlight, without: Settling, ends: Listed, starts: Settling},
	EvParked: {to: [modes]Mode{Open: Behind, Behind: Behind, Polled: Polled, LastPage: LastPage, Held: HeldBehind, HeldBehind: HeldBehind},
		needs: Settling, ends: Settling | Parking},
	EvSkipped: {to: anyMode, needs: Settling, ends: Settling | Parking},

	EvLoad:     {to: [modes]Mode{Open: Polled, Behind: Polled}, without: InFlight | Parking | Settling | Changing | Paging | Frozen},
	EvChange:   {to: polls, without: InFlight, starts: Changing},
	EvChanged:  {to: anyMode, needs: Changing, ends: Changing},
	EvWantPage: {to: polls, without: InFlight | Changing | Paging, starts: Paging},
	EvDropPage: {to: anyMode, needs: Paging, ends: Paging},
	// The page shows all that was parked before: what arrives while it is read waits in memory.
	EvPage:   {to: [modes]Mode{Polled: LastPage, LastPage: LastPage}, needs: Paging, without: Settling | Frozen},
	EvMore:   {to: [modes]Mode{LastPage: Polled}, needs: Paging, ends: Paging},
	EvLast:   {to: [modes]Mode{LastPage: LastPage}, needs: Paging, ends: Paging},
	EvUnload: {to: [modes]Mode{Polled: Behind, LastPage: Behind}, without: InFlight},
	EvBlock:  {to: [modes]Mode{Open: Behind, Behind: Behind, Polled: Polled, LastPage: LastPage, Held: HeldBehind, HeldBehind: HeldBehind}},
	EvReopen: {to: [modes]Mode{Open: Open, Behind: Open, Polled: Open, LastPage: Open, Held: Held, HeldBehind: Held}, without: InFlight | Settling | Changing},

	EvHold:   {to: [modes]Mode{Open: Held, Behind: HeldBehind, Held: Held, HeldBehind: HeldBehind}},
	EvUnhold: {to: [modes]Mode{Open: Open, Behind: Behind, Polled: Polled, LastPage: LastPage, Held: Open, HeldBehind: Behind}},
	EvFreeze: {to: anyMode, starts: Frozen},
	EvThaw:   {to: anyMode, ends: Frozen},
	EvTouch:  {to: anyMode, without: Touched, starts: Touched},
	EvWork:   {to: anyMode, needs: Touched, ends: Touched},
}

// On changes the lane's state. An event that the state does not allow is a bug: it changes nothing, and the term ends.
func (l *Lane) On(ev Event) {
	t := &transitions[ev]
	to := t.to[l.Mode]
	if to == noMode || l.doing&t.needs != t.needs || l.doing&t.without != 0 {
		l.Sink.Broken(fmt.Errorf("%w: sink %q: event %q in a lane that is %s (%s)", ErrBug, l.Sink.Name, ev, l.Mode, l.doing))
		return
	}
	l.doing = l.doing&^t.ends | t.starts
	if to == l.Mode {
		return
	}
	before := l.Polling()
	l.Mode = to
	switch after := l.Polling(); {
	case after && !before:
		l.Sink.Polled++
	case before && !after:
		l.Sink.Polled--
	}
}

// Is reports whether any of these operations is under way.
func (l *Lane) Is(o Operation) bool { return l.doing&o != 0 }

// Blocked reports whether the database holds deliveries that come before those of the tail.
func (l *Lane) Blocked() bool {
	return l.Mode == Behind || l.Mode == Polled || l.Mode == LastPage || l.Mode == HeldBehind
}

// Polling reports whether the lane's queue is that of the poller.
func (l *Lane) Polling() bool { return l.Mode == Polled || l.Mode == LastPage }

// IsHeld reports whether an operator holds the group.
func (l *Lane) IsHeld() bool { return l.Mode == Held || l.Mode == HeldBehind }
