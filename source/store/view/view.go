// Package view is the JSON form of what operators look at: deliveries, messages, waiting groups and requests. The command line prints it with
// -o json, and the HTTP API answers with it, so that a script reads the same names from both.
package view

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// A Delivery is a parked delivery without the content of its message.
type Delivery struct {
	ID         string           `json:"id" doc:"The id of the message."`
	Sink       string           `json:"sink" doc:"Empty if no sink could be chosen for the message."`
	Table      string           `json:"table,omitempty" doc:"The outbox table of the message."`
	Group      string           `json:"group,omitempty"`
	Type       string           `json:"type"`
	Topic      string           `json:"topic,omitempty"`
	Tenant     string           `json:"tenant,omitempty"`
	Position   string           `json:"position" doc:"Orders the messages of a group. It sorts as text."`
	State      checkpoint.State `json:"state" enum:"retrying,waiting,dead,dropped,delivered"`
	Blocks     bool             `json:"blocks" doc:"The later deliveries of its group wait for it."`
	Attempts   int              `json:"attempts" doc:"Attempts that were spent."`
	Tries      int              `json:"tries" doc:"All tries at the sink. A failure that says nothing about the message spends no attempt."`
	NextAt     *time.Time       `json:"next_attempt_at,omitempty" doc:"Absent if it waits for another delivery or for an operator."`
	ParkedAt   time.Time        `json:"parked_at"`
	ChangedAt  time.Time        `json:"changed_at" doc:"When its state changed last. A dead delivery died then."`
	ErrorClass string           `json:"error_class,omitempty"`
	LastError  string           `json:"last_error,omitempty"`
	Replays    int              `json:"replays"`
	Replaces   string           `json:"replaces,omitempty" doc:"The id of the row, if an operator's edit gave the message another id."`
}

// OfDelivery returns the view of a delivery.
func OfDelivery(p *store.Listed) Delivery {
	m := p.Message
	v := Delivery{ID: m.ID, Sink: p.Sink, Table: m.Table, Group: m.Group, Type: m.Type, Topic: m.Topic, Tenant: m.Tenant, Position: m.Position.String(),
		State: p.State, Blocks: p.Blocks, Attempts: p.Attempts, Tries: p.Tries, ErrorClass: p.ErrorClass, LastError: p.LastError, Replays: p.Replays,
		Replaces: p.Original, ParkedAt: p.ParkedAt, ChangedAt: p.ChangedAt}
	if !p.NextAttemptAt.IsZero() {
		v.NextAt = &p.NextAttemptAt
	}
	return v
}

// OfDeliveries returns the views of deliveries; never nil.
func OfDeliveries(found []store.Listed) []Delivery {
	views := make([]Delivery, len(found))
	for i := range found {
		views[i] = OfDelivery(&found[i])
	}
	return views
}

// A Failure is a group of deliveries that have the same class of error, type or sink: those of the three that were asked for.
type Failure struct {
	Class     *string   `json:"class,omitempty"`
	Type      *string   `json:"type,omitempty"`
	Sink      *string   `json:"sink,omitempty" doc:"Empty if no sink could be chosen for the messages."`
	Count     int       `json:"count"`
	FirstSeen time.Time `json:"first_seen" doc:"When the first of them died, or came into its state."`
	LastSeen  time.Time `json:"last_seen"`
	Example   *Delivery `json:"example,omitempty" doc:"One of them; absent if it was delivered or dropped meanwhile."`
}

// OfFailures returns the views of failures that are grouped by some causes; never nil.
func OfFailures(found []operate.Failure, by []operate.Cause) []Failure {
	views := make([]Failure, len(found))
	for i := range found {
		f := &found[i]
		v := Failure{Count: f.Count, FirstSeen: f.First, LastSeen: f.Last}
		for _, cause := range by {
			switch cause {
			case operate.ByClass:
				v.Class = &f.Class
			case operate.ByType:
				v.Type = &f.Type
			case operate.BySink:
				v.Sink = &f.Sink
			}
		}
		if f.Example != nil {
			example := OfDelivery(f.Example)
			v.Example = &example
		}
		views[i] = v
	}
	return views
}

// TypeOf is the pattern for the type that the deliveries of a failure have in common; "" if they need not have one. A database may keep only the beginning of
// a long type for it.
func TypeOf(f *Failure) string {
	switch {
	case f.Type == nil:
		return ""
	case len(*f.Type) >= longType:
		return store.GlobOf(*f.Type) + "*"
	}
	return store.GlobOf(*f.Type)
}

// longType is how many bytes a type has, at least, of which only the beginning is known: MySQL groups by the first 255 bytes, and may cut a character.
const longType = 250

// A Message is a parked delivery with the content of its message.
type Message struct {
	Delivery
	Key           *string  `json:"key" doc:"A key that is no UTF-8 stands in base64, behind base64:."`
	Headers       []Header `json:"headers,omitempty"`
	Payload       *string  `json:"payload" doc:"Null if the payload is NULL, no UTF-8, or stands in the outbox table only."`
	PayloadBase64 string   `json:"payload_base64,omitempty" doc:"A payload that is no UTF-8."`
	InTable       bool     `json:"payload_in_table,omitempty" doc:"Only the row of the outbox table has the payload: it is too large to be copied, or cannot be understood."`
}

// A Header is one header of a message.
type Header struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// OfMessages returns the views of deliveries that were read whole; never nil.
func OfMessages(found []store.Listed) []Message {
	views := make([]Message, len(found))
	for i := range found {
		m := found[i].Message
		v := Message{Delivery: OfDelivery(&found[i]), Key: text(m.Key), InTable: found[i].InTable}
		if utf8.Valid(m.Payload) {
			v.Payload = text(m.Payload)
		} else {
			v.PayloadBase64 = base64.StdEncoding.EncodeToString(m.Payload)
		}
		for _, h := range m.Headers {
			v.Headers = append(v.Headers, Header{h.Name, text(h.Value)})
		}
		views[i] = v
	}
	return views
}

// text returns nil for NULL, and base64 for what is no UTF-8.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	if !utf8.Valid(b) {
		s = "base64:" + base64.StdEncoding.EncodeToString(b)
	}
	return &s
}

// A Group is a message group that waits at a sink.
type Group struct {
	Sink       string    `json:"sink" doc:"Empty if the group is held at every sink, or its messages have no sink."`
	Group      string    `json:"group"`
	Held       bool      `json:"held" doc:"An operator holds it."`
	Deliveries int       `json:"deliveries" doc:"Deliveries that block the group, the first one included."`
	First      *Delivery `json:"first,omitempty" doc:"The delivery that all others wait for."`
	Everywhere bool      `json:"held_everywhere,omitempty" doc:"The hold is at every sink, and only resume without a sink ends it."`
}

// OfLanes returns the views of lanes that wait; never nil.
func OfLanes(lanes []operate.WaitingLane) []Group {
	views := make([]Group, len(lanes))
	for i, l := range lanes {
		views[i] = Group{Sink: l.Sink, Group: l.Group, Held: l.Held, Everywhere: l.Everywhere, Deliveries: l.Deliveries}
		if l.First != nil {
			first := OfDelivery(l.First)
			views[i].First = &first
		}
	}
	return views
}
