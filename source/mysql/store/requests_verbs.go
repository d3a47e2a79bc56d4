package store

import (
	"context"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store"
)

// What verbs do to deliveries. The assignments are made in this order.
const (
	replayParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'waiting', p.blocks = NOT p.alone, p.attempts = 0, p.tries = 0, p.failed_epoch = 0,
	p.failed_call = 0, p.tried_at = NULL, p.replays = p.replays + 1,
	p.last_error = NULL, p.error_class = NULL, p.next_attempt_at = IF(p.alone, UTC_TIMESTAMP(6), NULL), p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	dropParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.state = 'dropped', p.blocks = 0, p.next_attempt_at = NULL, p.error_class = 'dropped',
	p.last_error = ?, p.changed_at = UTC_TIMESTAMP(6)
WHERE ` + whereKeys

	skipParked = `
UPDATE {parked} p FORCE INDEX (PRIMARY) SET p.changed_at = IF(p.state = 'dead', p.changed_at, UTC_TIMESTAMP(6)), p.state = 'dead', p.blocks = 0,
	p.next_attempt_at = NULL
WHERE ` + whereKeys
)

// rewriteParked replaces what a delivery carries.
func rewriteParked() string {
	return "UPDATE {parked} p FORCE INDEX (PRIMARY) SET " +
		strings.ReplaceAll(columnNames(rewritten(new(store.ParkedRow)), "p."), ",", " = ?,") + " = ?, p.payload_bytes = ? WHERE " + whereKeys
}

// rewritten are the columns that rewriteParked replaces.
func rewritten(row *store.ParkedRow) []store.Column {
	return slices.DeleteFunc(row.Columns(), func(c store.Column) bool { return c.Part == store.State })
}

// Alter implements relational.Statements.
func (s *Store) Alter(ctx context.Context, verb checkpoint.Verb, keys []checkpoint.Key, why string) error {
	b := s.Batch()
	switch verb {
	case checkpoint.VerbDrop:
		s.queueKeys(b, dropParked, keys, why)
	case checkpoint.VerbSkip:
		s.queueKeys(b, skipParked, keys)
	default:
		s.queueKeys(b, replayParked, keys)
	}
	return s.Send(ctx, b)
}

// Rewrite implements relational.Statements.
func (s *Store) Rewrite(ctx context.Context, changed []store.Rewritten) error {
	b := s.Batch()
	for i := range changed {
		s.queueRewrite(b, changed[i].Parked)
	}
	return s.Send(ctx, b)
}

func (s *Store) queueRewrite(b *session.Batch, p *checkpoint.Parked) {
	var row store.ParkedRow
	row.Carry(p)
	rest := s.fit(&row)
	b.Exec(rewriteParked(), append(appendValues(nil, rewritten(&row)), len(row.Content.Payload)+len(rest),
		s.Config.Pipeline, quote.List{p.RowID()}, quote.Bin(p.Message.Table), p.Sink)...)
	s.queueRest(b, p.Key(), len(row.Content.Payload), rest)
}
