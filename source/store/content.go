package store

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
)

// Edited is a copy of the message with the changes made. Headers are set by name; the others stay.
func Edited(old *outbox.Message, e *checkpoint.Edit) *outbox.Message {
	m := *old
	m.Fault = nil
	if e.Payload != nil {
		m.Payload = *e.Payload
	}
	if e.Type != nil {
		m.Type = *e.Type
	}
	if e.Topic != nil {
		m.Topic = *e.Topic
	}
	if e.Key != nil {
		m.Key = []byte(*e.Key)
	}
	m.Headers = slices.Clone(old.Headers)
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		set := outbox.Header{Name: name, Value: []byte(e.Headers[name])}
		i := slices.IndexFunc(m.Headers, func(h outbox.Header) bool { return h.Name == name })
		if i < 0 {
			m.Headers = append(m.Headers, set)
			continue
		}
		m.Headers[i] = set
		rest := slices.DeleteFunc(m.Headers[i+1:], func(h outbox.Header) bool { return h.Name == name })
		m.Headers = m.Headers[:i+1+len(rest)]
	}
	return &m
}

// CompleteFrom puts what the row says now in the place of what was copied; fresh is nil if the row is gone.
func CompleteFrom(p *checkpoint.Parked, fresh *outbox.Message) {
	old := p.Message
	if fresh == nil {
		old.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("message %s was not copied when it was "+
			"parked, and its row is gone from table %s: drop it", old.ID, old.Table)}
		return
	}
	p.Message = WithPresentContent(old, fresh)
	p.InTable = fresh.Fault != nil && fresh.Fault.Class == outbox.FaultTooLarge
}

// WithPresentContent is the message as its row says now, at the place where it was.
func WithPresentContent(old, fresh *outbox.Message) *outbox.Message {
	m := *fresh
	if m.ID, m.Table = old.ID, old.Table; m.Group != old.Group {
		m.Group, m.LongGroup = old.Group, old.LongGroup // it stays in its lane
	}
	m.Position, m.CommitTime, m.Txn = old.Position, old.CommitTime, 0
	return &m
}

// NewUUID draws a random UUID, version 4.
func NewUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
