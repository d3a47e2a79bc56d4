package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

const (
	// RequestChunk is the most deliveries, or groups, of one transaction.
	RequestChunk = 1000
	// RequestsAtOnce is how many requests are read at once.
	RequestsAtOnce = 100
)

// A RequestResult is the column result of tailbox_request: what a request did so far.
type RequestResult struct {
	// Changed counts deliveries, groups or sinks that were changed; Refused deliveries that were left alone, for the reason
	// in Why.
	Changed int    `json:"changed"`
	Refused int    `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
	// Note is what else there is to say. Error says why the request as a whole was not carried out.
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"`
	// NewID is the id that an edit gave the message.
	NewID string `json:"new_id,omitempty"`
	// After is the last delivery that was looked at, Next the number of groups that were dealt with.
	After *ParkedKey `json:"after,omitempty"`
	Next  int        `json:"next,omitempty"`
}

// JSON is the text of the column.
func (r *RequestResult) JSON() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "{}" // never happens: the result holds only texts and numbers
	}
	return string(text)
}

// ReadResult reads the column; NULL is that of a request that did nothing yet.
func ReadResult(id int64, text *string) (*RequestResult, error) {
	r := &RequestResult{}
	if text == nil {
		return r, nil
	}
	if err := json.Unmarshal([]byte(*text), r); err != nil {
		return nil, fmt.Errorf("read progress of request %d: %w", id, err)
	}
	return r, nil
}

// A RequestList gathers the requests that are not done, in order.
type RequestList struct {
	open []checkpoint.Request
	bad  map[int64]error
}

// Add adds a request with its column selection, unless it cannot be read: somebody wrote it by hand.
func (l *RequestList) Add(r checkpoint.Request, selection string) {
	err := ReadSelection([]byte(selection), &r.Selection)
	if err == nil {
		err = Validate(&r)
	}
	if err == nil {
		l.open = append(l.open, r)
		return
	}
	if l.bad == nil {
		l.bad = make(map[int64]error)
	}
	l.bad[r.ID] = err
}

// ReadSelection reads the column selection, which somebody may have written by hand. A name that is misspelt is an error, because without it the selection would
// be wider.
func ReadSelection(text []byte, sel *checkpoint.Selection) error {
	read := json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields()
	if err := read.Decode(sel); err != nil {
		return fmt.Errorf("read the request's selection: %w: it may have ids, sink, sinks, table, groups, type, topic, tenant, reason, q, states, limit, all, unrouted, allow_reorder, edit and from", err)
	}
	return nil
}

// Open returns those that can be read, and closes the others with the reason.
func (l *RequestList) Open(ctx context.Context, s Requests) ([]checkpoint.Request, error) {
	for id, why := range l.bad {
		if err := s.CloseRequest(ctx, id, &RequestResult{Error: why.Error()}); err != nil {
			return nil, err
		}
	}
	return l.open, nil
}

// Refuse counts a delivery that is left alone.
func (r *RequestResult) Refuse(why string) {
	r.Refused++
	r.Why = why
}

// ErrNoSink means that no sink can have a name.
var ErrNoSink = errors.New("no sink can have this name: names of sinks are letters, digits, _ and - of ASCII")

// CanBeSink reports whether a sink can have the name. Databases that keep it as ASCII refuse to compare it with others.
func CanBeSink(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// Validate tells what is wrong with a request, before anything of it is carried out.
func Validate(r *checkpoint.Request) error {
	sel := &r.Selection
	if !CanBeSink(sel.Sink) || slices.ContainsFunc(sel.Sinks, func(name string) bool { return !CanBeSink(name) }) {
		return ErrNoSink
	}
	if sel.Unrouted && (sel.Sink != "" || ByGroups(r)) {
		return errors.New("unrouted is about deliveries for which no sink could be chosen: it goes with no sink, and not with hold or resume")
	}
	if sel.Table != "" && !Selects(r.Verb) {
		return errors.New("a table is about deliveries: it goes with replay, edit, drop and skip")
	}
	switch r.Verb {
	case checkpoint.VerbReplay, checkpoint.VerbDrop:
		if !sel.Narrows() && !sel.All {
			return errors.New("nothing is selected: name ids, groups, a sink, a table, a type, a topic, a tenant, a reason or a text to search for (q), or say all")
		}
	case checkpoint.VerbEdit:
		if len(sel.IDs) != 1 || sel.Edit == nil {
			return errors.New("an edit changes one message: name one id, and what to change")
		}
		if sel.Edit.NewID == sel.IDs[0] {
			return errors.New("an edited message needs an id of its own")
		}
		if id := sel.Edit.NewID; len(id) > outbox.MaxIndexed || outbox.IsStandInID(id) || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
			return fmt.Errorf("the new id %.50q cannot be one: an id is UTF-8 of at most %d bytes (this has %d), without NUL, and is not of the kind that stands in for a missing one",
				id, outbox.MaxIndexed, len(id))
		}
		if why := beyond(sel.Edit); why != "" {
			return fmt.Errorf("no sink could take the edited message: %s", why)
		}
	case checkpoint.VerbSkip, checkpoint.VerbHold:
		if len(sel.Groups) == 0 {
			return errors.New("name the groups")
		}
	case checkpoint.VerbResume:
		if len(sel.Groups) == 0 && len(sel.Sinks) == 0 {
			return errors.New("name groups or sinks")
		}
	case checkpoint.VerbPause:
		if len(sel.Sinks) == 0 {
			return errors.New("name the sinks")
		}
	case checkpoint.VerbAcceptGap:
		if sel.From == "" {
			return errors.New("say which gap: from is the checkpoint that was seen, the column resume of tailbox_checkpoint")
		}
	default:
		return fmt.Errorf("there is no verb %q", r.Verb)
	}
	for _, group := range sel.Groups {
		if len(group) > outbox.MaxIndexed {
			return fmt.Errorf("the group %.50q has %d bytes, and tailbox keeps one of more than %d by another name: write %q", group, len(group),
				outbox.MaxIndexed, outbox.StandInGroup(group))
		}
	}
	for _, state := range sel.States {
		switch state {
		case checkpoint.StateWaiting:
			if r.Verb == checkpoint.VerbSkip {
				return errors.New("a skip is about deliveries that are dead or retrying: what is waiting has not been tried")
			}
		case checkpoint.StateRetrying, checkpoint.StateDead:
		default:
			return fmt.Errorf("there is no state %q: want retrying, waiting or dead", state)
		}
	}
	return nil
}

// beyond says which part of an edit is beyond its bound; "" for none. The headers that the message has already are added to it later.
func beyond(e *checkpoint.Edit) string {
	var m outbox.Message
	for part, text := range map[*string]*string{&m.Type: e.Type, &m.Topic: e.Topic} {
		if text != nil {
			*part = *text
		}
	}
	if e.Key != nil {
		m.Key = []byte(*e.Key)
	}
	if over := m.Bound(); over != nil {
		return over.Name + ": " + over.Why
	}
	var b outbox.HeaderBounds
	for name, value := range e.Headers {
		if err := b.Add(&outbox.Header{Name: name, Value: []byte(value)}); err != nil {
			return "headers: " + err.Error()
		}
	}
	return ""
}

// ByGroups reports whether a request is about a list of groups, parked or not, instead of deliveries.
func ByGroups(r *checkpoint.Request) bool {
	return r.Verb == checkpoint.VerbHold || r.Verb == checkpoint.VerbResume && len(r.Selection.Sinks) == 0
}

// A Force is the column in_force of a request: what of a hold or a pause has not been resumed yet.
type Force struct {
	Sinks []string    `json:"sinks,omitempty"`
	Lanes [][2]string `json:"lanes,omitempty"` // sink and group; the sink '' is every sink
}

// Forces are those of all requests, by id.
type Forces map[int64]*Force

// Read adds what a request has in force, the column in_force.
func (fs Forces) Read(id int64, text string) error {
	f := &Force{}
	if err := json.Unmarshal([]byte(text), f); err != nil {
		return fmt.Errorf("read in_force of request %d: %w", id, err)
	}
	fs[id] = f
	return nil
}

// JSON is the text of the column in_force; "" stands for NULL: nothing is left.
func (f *Force) JSON() string {
	text, err := json.Marshal(f)
	if f.Empty() || err != nil { // there are texts alone, which can always be written
		return ""
	}
	return string(text)
}

// Sinks are those that are paused.
func (fs Forces) Sinks() []string {
	set := make(map[string]bool)
	for _, f := range fs {
		for _, sink := range f.Sinks {
			set[sink] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// HeldLanes are the lanes that operators hold. The sink "" of one stands for its group at every sink.
type HeldLanes map[checkpoint.Lane]bool

// Has reports whether the lane is held: by itself, or its group at every sink (a hold that names no sink).
func (h HeldLanes) Has(lane checkpoint.Lane) bool {
	return h[lane] || h[checkpoint.Lane{Group: lane.Group}]
}

// Held are the lanes that are held.
func (fs Forces) Held() HeldLanes {
	set := make(HeldLanes)
	for _, f := range fs {
		for _, l := range f.Lanes {
			set[checkpoint.Lane{Sink: l[0], Group: l[1]}] = true
		}
	}
	return set
}

// Resumed counts the lanes that a resume frees. A group that is held at every sink cannot be resumed at one: that is refused.
// It is to be asked before the holds are taken back.
func (fs Forces) Resumed(lanes []checkpoint.Lane, result *RequestResult) (freed int) {
	held, groups := fs.Held(), make(map[string]bool)
	for lane := range held {
		groups[lane.Group] = true
	}
	for _, lane := range lanes {
		switch {
		case lane.Sink != "" && held[checkpoint.Lane{Group: lane.Group}]:
			result.Refuse("it is held at every sink: resume it without --sink, and hold it again where it is to wait")
		case held[lane], lane.Sink == "" && groups[lane.Group]:
			freed++
		}
	}
	return freed
}

// Empty reports whether nothing is left of it.
func (f *Force) Empty() bool { return len(f.Sinks)+len(f.Lanes) == 0 }

// Hold adds lanes.
func (f *Force) Hold(lanes []checkpoint.Lane) {
	for _, lane := range lanes {
		f.Lanes = append(f.Lanes, [2]string{lane.Sink, lane.Group})
	}
}

// Resume takes lanes away, and reports whether there were some. The sink "" of a lane stands for every sink.
func (f *Force) Resume(lanes []checkpoint.Lane) bool {
	n := len(f.Lanes)
	f.Lanes = slices.DeleteFunc(f.Lanes, func(l [2]string) bool {
		return slices.ContainsFunc(lanes, func(lane checkpoint.Lane) bool {
			return lane.Group == l[1] && (lane.Sink == "" || lane.Sink == l[0])
		})
	})
	return len(f.Lanes) < n
}

// ResumeSinks takes paused sinks away, and reports whether there were some.
func (f *Force) ResumeSinks(sinks []string) bool {
	n := len(f.Sinks)
	f.Sinks = slices.DeleteFunc(f.Sinks, func(sink string) bool { return slices.Contains(sinks, sink) })
	return len(f.Sinks) < n
}

// GroupLanes lists the lanes of a hold or resume from the n-th group on.
func GroupLanes(r *checkpoint.Request, from, limit int) []checkpoint.Lane {
	groups := slices.Compact(slices.Sorted(slices.Values(r.Selection.Groups)))
	var lanes []checkpoint.Lane
	for i := from; i < len(groups) && len(lanes) < limit; i++ {
		lanes = append(lanes, checkpoint.Lane{Sink: r.Selection.Sink, Group: groups[i]})
	}
	return lanes
}
