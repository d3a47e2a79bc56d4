package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// emittedHead is what comes before the prefix: flags and a position.
const emittedHead = 1 + 8

// isEmitted tells whether a log message of kind 'M' is one of ours, by its head: flags, a position, the prefix.
func (st *stream) isEmitted(head []byte) (bool, error) {
	if len(head) < emittedHead {
		return false, truncated("logical message")
	}
	prefix := st.cfg.Messages
	rest := head[emittedHead:]
	if prefix == "" || len(rest) <= len(prefix) || rest[len(prefix)] != 0 || string(rest[:len(prefix)]) != prefix {
		return false, nil
	}
	if head[0]&1 == 0 || !st.open {
		// It is no part of a transaction, so it has no place among the others.
		st.cfg.Logger.Error("a message was written outside of its transaction, and is not delivered: the first argument of pg_logical_emit_message "+
			"must be true", "prefix", prefix)
		st.ignored[ignoredMessage]++
		return false, nil
	}
	return true, nil
}

// emitted handles a log message of kind 'M' after that byte.
func (st *stream) emitted(ctx context.Context, b []byte) error {
	ours, err := st.isEmitted(b)
	if err != nil || !ours {
		return err
	}
	b = b[emittedHead+len(st.cfg.Messages)+1:]
	if len(b) < 4 || int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		return truncated("logical message")
	}
	if err := st.fits(ctx, len(b)-4); err != nil {
		return err
	}
	return st.emittedContent(ctx, bytes.Clone(b[4:]))
}

// largeEmitted does the same for one that is larger than the read buffer, of which size bytes are left to be read.
func (st *stream) largeEmitted(ctx context.Context, size int) error {
	head, err := st.wire.need(min(size, emittedHead+len(st.cfg.Messages)+1))
	if err != nil {
		return err
	}
	size -= len(head)
	ours, err := st.isEmitted(head)
	switch {
	case err != nil:
		return err
	case !ours:
		return st.wire.discard(size)
	}
	if _, err := st.take(&size, 4); err != nil {
		return err
	}
	if err := st.fits(ctx, size); err != nil {
		return err
	}
	content := make([]byte, size)
	if err := st.wire.readFull(content); err != nil {
		return err
	}
	return st.emittedContent(ctx, content)
}

// fits stops at a content that is above max_message: it cannot be left in a table.
func (st *stream) fits(ctx context.Context, size int) error {
	if size <= st.dec.maxMessage {
		return nil
	}
	return errors.Join(fmt.Errorf("read logical message with prefix %q: it has %d bytes, and no row that could keep it: raise max_message (%d bytes): %w",
		st.cfg.Messages, size, st.dec.maxMessage, source.ErrStop), st.flush(ctx))
}

// emittedContent adds the message to the batch. It keeps the content.
func (st *stream) emittedContent(ctx context.Context, content []byte) error {
	pos, err := st.place(ctx)
	if err != nil {
		return err
	}
	if st.watch.encoding.narrow() && !utf8.Valid(content) {
		if content, err = st.watch.translate(ctx, content); err != nil {
			return err
		}
	}
	m := st.dec.NewMessage()
	table := outbox.EmittedTable(st.cfg.Messages)
	m.Position, m.CommitTime, m.Table = pos, st.at, table.String()
	decodeEnvelope(m, content, st.watch.encoding)
	return st.add(ctx, m, len(content))
}

// decodeEnvelope fills m from the content, all of which becomes the payload where it cannot be understood: nothing else has it. Its
// texts never passed the database's encoding, by which they may have to be parked.
func decodeEnvelope(m *outbox.Message, content []byte, enc encoding) {
	var e envelope
	err := e.parse(content)
	if err == nil {
		err = e.fill(m, enc)
	}
	if err == nil {
		return
	}
	*m = outbox.Message{Table: m.Table, Position: m.Position, CommitTime: m.CommitTime, ID: outbox.StandInID(m.Position.String()), Payload: content,
		Group: indexed(e.Group, enc), Type: enc.fit(sqlText(e.Type))}
	m.Fault = &outbox.Fault{Class: outbox.FaultUndecodable, Reason: fmt.Sprintf("a message written by pg_logical_emit_message cannot be understood: %v: "+
		"correct its writer, then edit the message with a new id, or drop it", err)}
}

func (e *envelope) fill(m *outbox.Message, enc encoding) error {
	for _, text := range []string{e.ID, e.Type, e.Topic, e.Group, e.Tenant, e.ContentType, e.IdempotencyKey, e.CorrelationID} {
		if strings.ContainsRune(text, 0) {
			return errors.New(`a text has \u0000, which a table cannot hold`)
		}
		if enc.fit(text) != text {
			return fmt.Errorf("a text has a character beyond ASCII, which the database's encoding %s may lack", enc)
		}
	}
	if e.Type == "" && e.Topic == "" {
		return errors.New("it has neither a type nor a topic")
	}
	if len(e.ID) > outbox.MaxIndexed || len(e.Group) > outbox.MaxIndexed {
		return fmt.Errorf("id or group has more than %d bytes", outbox.MaxIndexed)
	}
	var err error
	if m.Payload, err = e.payload(); err != nil {
		return err
	}
	if m.Headers, err = sqlstore.AppendHeaders(nil, e.Headers); len(e.Headers) > 0 && err != nil {
		return fmt.Errorf("headers: %w", err)
	}
	if e.Key != nil {
		m.Key = []byte(*e.Key)
	}
	m.ID, m.Type, m.Topic, m.Group, m.Tenant, m.ContentType = e.ID, e.Type, e.Topic, e.Group, e.Tenant, e.ContentType
	m.IdempotencyKey, m.CorrelationID, m.Priority, m.MaxAttempts = e.IdempotencyKey, e.CorrelationID, e.Priority, max(e.MaxAttempts, 0)
	m.AvailableAt, m.CreatedAt = e.AvailableAt, e.CreatedAt
	if m.Topic == "" {
		m.Topic = m.Type // as for tables without a topic
	}
	if m.ID == "" || outbox.IsStandInID(m.ID) {
		m.ID = "message-" + m.Position.String()
	}
	return nil
}

// indexed is a group as it can be kept. Groups that are not one stay apart.
func indexed(group string, enc encoding) string {
	if group = sqlText(group); len(group) > outbox.MaxIndexed || enc.fit(group) != group {
		return enc.fit(outbox.StandInGroup([]byte(group)))
	}
	return group
}

// sqlText is a text without what a text column cannot hold.
func sqlText(s string) string { return strings.ReplaceAll(s, "\x00", "") }
