package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
)

// logMessageHead is what comes before the prefix: flags and a position.
const logMessageHead = 1 + 8

// isLogMessage reports whether a log message of kind 'M' is one of ours, by its head: flags, a position, the prefix.
func (st *stream) isLogMessage(head []byte) (bool, error) {
	if len(head) < logMessageHead {
		return false, pgrepl.Truncated("logical message")
	}
	prefix := st.cfg.Messages
	rest := head[logMessageHead:]
	if prefix == "" || len(rest) <= len(prefix) || rest[len(prefix)] != 0 || string(rest[:len(prefix)]) != prefix {
		return false, nil
	}
	if head[0]&1 == 0 || !st.open {
		// It is no part of a transaction, so it has no place among the others.
		st.ignored[ignoredMessage]++
		st.outside++
		st.reportOutside(time.Now())
		return false, nil
	}
	return true, nil
}

// outsideEvery is how often messages outside of a transaction are logged: whoever may write them may write many.
const outsideEvery = 10 * time.Second

// reportOutside logs how many messages were outside of a transaction since it was logged last.
func (st *stream) reportOutside(now time.Time) {
	if st.outside == 0 || now.Sub(st.outsideLogged) < outsideEvery {
		return
	}
	st.cfg.Logger.Error("messages were written outside of their transaction, and are not delivered: the first argument of pg_logical_emit_message "+
		"must be true", "prefix", st.cfg.Messages, "messages", st.outside)
	st.outside, st.outsideLogged = 0, now
}

// emitted handles a log message of kind 'M' after that byte.
func (st *stream) emitted(ctx context.Context, b []byte) error {
	ours, err := st.isLogMessage(b)
	if err != nil || !ours {
		return err
	}
	b = b[logMessageHead+len(st.cfg.Messages)+1:]
	if len(b) < 4 || int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		return pgrepl.Truncated("logical message")
	}
	content := b[4:]
	return st.logMessageContent(ctx, bytes.Clone(content[:min(len(content), st.most(len(content)))]), len(content))
}

// largeLogMessage does the same for one that is larger than the read buffer, of which size bytes are left to be read.
func (st *stream) largeLogMessage(ctx context.Context, size int) error {
	head, err := st.wire.Need(min(size, logMessageHead+len(st.cfg.Messages)+1))
	if err != nil {
		return err
	}
	size -= len(head)
	ours, err := st.isLogMessage(head)
	switch {
	case err != nil:
		return err
	case !ours:
		return st.wire.Discard(size)
	}
	if _, err := st.take(&size, 4); err != nil {
		return err
	}
	content := make([]byte, st.most(size))
	if err := st.wire.ReadFull(content); err != nil {
		return err
	}
	if err := st.wire.Discard(size - len(content)); err != nil {
		return err
	}
	return st.logMessageContent(ctx, content, size)
}

// most is how much is read of a content: of one above max_message only the beginning, in which its members may stand.
func (st *stream) most(size int) int {
	if size > st.dec.MaxMessage {
		return min(size, columns.MaxSmall)
	}
	return size
}

// logMessageContent adds the message to the batch. It keeps the content, which is all of it, or the beginning of one above max_message.
func (st *stream) logMessageContent(ctx context.Context, content []byte, size int) error {
	pos, err := st.place(ctx)
	if err != nil {
		return err
	}
	m := st.dec.NewMessage()
	table := outbox.LogMessageTable(st.cfg.Messages)
	m.Position, m.CommitTime, m.Table = pos, st.at, table.String()
	if size > st.dec.MaxMessage {
		headOfEnvelope(m, content, size, st.dec.MaxMessage, st.watch.encoding)
		return st.add(ctx, m, len(content))
	}
	if st.watch.encoding.Narrow() && !utf8.Valid(content) {
		if content, err = st.watch.translate(ctx, content); err != nil {
			return err
		}
	}
	decodeEnvelope(m, content, st.watch.encoding)
	return st.add(ctx, m, len(content))
}

// headOfEnvelope fills m from the beginning of a content that is larger than max_message: with the members before the first one that is cut off. The
// message is a dead letter, so that one writer does not stop all others. No row has its content, which is lost when the log is.
func headOfEnvelope(m *outbox.Message, head []byte, size, maxMessage int, enc session.Encoding) {
	var e envelope
	for range utf8.UTFMax - 1 { // it may end within a character
		if !utf8.Valid(head) {
			head = head[:len(head)-1]
		}
	}
	_ = e.parse(head) // that it ends too soon is known
	e.Payload, e.PayloadText, e.PayloadBase64 = nil, nil, nil
	if err := e.fill(m, enc); err != nil {
		m.ID, m.Type, m.Group = outbox.StandInID(m.Position.String()), enc.Fit(sqlText(e.Type)), ""
		m.SetGroup(indexed(e.Group, enc))
		m.Bound()
	}
	m.Payload = nil
	m.Fault = &outbox.Fault{Class: outbox.FaultTooLarge, Reason: fmt.Sprintf("a message written by pg_logical_emit_message has %d bytes, and no row that "+
		"could keep it: raise max_message (%d bytes), drop this message and let its writer write it again", size, maxMessage)}
}

// decodeEnvelope fills m from the content. If it cannot decode the content, all of it becomes the payload, because it is stored nowhere else. The
// content's texts were never converted to the database's encoding, but may have to be parked in it.
func decodeEnvelope(m *outbox.Message, content []byte, enc session.Encoding) {
	var e envelope
	err := e.parse(content)
	if err == nil {
		err = e.fill(m, enc)
	}
	if err == nil {
		return
	}
	*m = outbox.Message{Table: m.Table, Position: m.Position, CommitTime: m.CommitTime, ID: outbox.StandInID(m.Position.String()), Payload: content,
		Type: enc.Fit(sqlText(e.Type))}
	m.SetGroup(indexed(e.Group, enc))
	m.Bound()
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("a message written by pg_logical_emit_message cannot be understood: %s: "+
		"correct its writer, then edit the message with a new id, or drop it", outbox.Shorten(err.Error()))}
}

func (e *envelope) fill(m *outbox.Message, enc session.Encoding) error {
	for _, text := range []string{e.ID, e.Type, e.Topic, e.Group, e.Tenant, e.ContentType, e.IdempotencyKey, e.CorrelationID} {
		if strings.ContainsRune(text, 0) {
			return errors.New(`a text has \u0000, which a table cannot hold`)
		}
		if enc.Fit(text) != text {
			return fmt.Errorf("a text has a character beyond ASCII, which the database's encoding %s may lack", enc)
		}
	}
	if e.Type == "" && e.Topic == "" {
		return errors.New("it has neither a type nor a topic")
	}
	if len(e.ID) > outbox.MaxIndexed {
		return fmt.Errorf("id has %d bytes, and may have %d", len(e.ID), outbox.MaxIndexed)
	}
	var err error
	if m.Payload, err = e.payload(); err != nil {
		return err
	}
	if m.Headers, err = columns.BoundedHeaders(nil, e.Headers); len(e.Headers) > 0 && err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	if e.Key != nil {
		m.Key = []byte(*e.Key)
	}
	m.ID, m.Type, m.Topic, m.Tenant, m.ContentType = e.ID, e.Type, e.Topic, e.Tenant, e.ContentType
	if m.SetGroup(e.Group) {
		return fmt.Errorf("group has %d bytes, and may have %d", len(e.Group), outbox.MaxGroup)
	}
	m.IdempotencyKey, m.CorrelationID, m.Priority, m.MaxAttempts = e.IdempotencyKey, e.CorrelationID, e.Priority, max(e.MaxAttempts, 0)
	m.AvailableAt, m.CreatedAt = e.AvailableAt, e.CreatedAt
	if m.Topic == "" {
		m.Topic = m.Type // as for tables without a topic
	}
	if m.ID == "" || outbox.IsStandInID(m.ID) {
		m.ID = "message-" + m.Position.String()
	}
	if over := m.Bound(); over != nil {
		return fmt.Errorf("%s: %s", over.Name, over.Why)
	}
	return nil
}

// indexed returns a group as the database can write it. Different groups stay different.
func indexed(group string, enc session.Encoding) string {
	if group = sqlText(group); enc.Fit(group) != group {
		return enc.Fit(outbox.StandInGroup(group))
	}
	return group
}

// sqlText is a text without what a text column cannot hold.
func sqlText(s string) string { return strings.ReplaceAll(s, "\x00", "") }
