package view

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
)

// Listed is the delivery that a view shows, as far as it does: it undoes OfDelivery.
func (v *Delivery) Listed() (store.Listed, error) {
	at, err := outbox.ParsePosition(v.Position)
	if err != nil {
		return store.Listed{}, fmt.Errorf("delivery %q has a position that cannot be read: %w", v.ID, err)
	}
	l := store.Listed{ParkedAt: v.ParkedAt, ChangedAt: v.ChangedAt, Parked: checkpoint.Parked{Sink: v.Sink, State: v.State, Blocks: v.Blocks, Attempts: v.Attempts, Tries: v.Tries,
		LastError: v.LastError, ErrorClass: v.ErrorClass, Replays: v.Replays, Original: v.Replaces,
		Message: &outbox.Message{ID: v.ID, Table: v.Table, Group: v.Group, Type: v.Type, Topic: v.Topic, Tenant: v.Tenant, Position: at}}}
	if v.NextAt != nil {
		l.NextAttemptAt, l.Due = *v.NextAt, true
	}
	return l, nil
}

// Listed is the delivery that a view shows: it undoes OfMessages.
func (v *Message) Listed() (store.Listed, error) {
	l, err := v.Delivery.Listed()
	if err != nil {
		return l, err
	}
	m := l.Message
	m.Key, l.InTable = bytesOf(v.Key), v.InTable
	if m.Payload = []byte(nil); v.Payload != nil {
		m.Payload = []byte(*v.Payload)
	} else if v.PayloadBase64 != "" {
		if m.Payload, err = base64.StdEncoding.DecodeString(v.PayloadBase64); err != nil {
			return l, fmt.Errorf("delivery %q has a payload that cannot be read: %w", v.ID, err)
		}
	}
	for _, h := range v.Headers {
		m.Headers = append(m.Headers, outbox.Header{Name: h.Name, Value: bytesOf(h.Value)})
	}
	return l, nil
}

// bytesOf undoes text: what begins with base64: and is none of ours is shown alike all the same.
func bytesOf(s *string) []byte {
	if s == nil {
		return nil
	}
	if encoded, ok := strings.CutPrefix(*s, "base64:"); ok {
		if b, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return b
		}
	}
	return []byte(*s)
}

// Failure is the group that a view shows: it undoes OfFailures.
func (v *Failure) Failure() (operate.Failure, error) {
	f := operate.Failure{Count: v.Count, First: v.FirstSeen, Last: v.LastSeen}
	for from, to := range map[*string]*string{v.Class: &f.Class, v.Type: &f.Type, v.Sink: &f.Sink} {
		if from != nil {
			*to = *from
		}
	}
	if v.Example == nil {
		return f, nil
	}
	example, err := v.Example.Listed()
	f.Example, f.ExampleID = &example, v.Example.ID
	return f, err
}

// Asked is the request that a view shows, as far as it does: it undoes OfAsked.
func (v *Asked) Asked() store.Asked {
	a := store.Asked{Request: checkpoint.Request{ID: v.ID, Verb: checkpoint.Verb(v.Verb), By: v.By, Reason: v.Why}, RequestedAt: v.RequestedAt, Selects: v.Selection,
		Result: store.RequestResult{Changed: v.Changed, Refused: v.Refused, Why: v.RefusedWhy, Note: v.Note, Error: v.Error, NewID: v.NewID}}
	if v.DoneAt != nil {
		a.DoneAt = *v.DoneAt
	}
	return a
}
