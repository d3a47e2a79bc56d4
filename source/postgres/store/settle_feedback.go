package store

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/store/feedback"
)

// A preparation is the statements of feedback that are prepared, and the number that the next one is named by.
type preparation struct {
	of   map[*source.Feedback]*pgconn.StatementDescription
	next int
}

// FeedbackSQL is the statement with numbered parameters.
func FeedbackSQL(f *source.Feedback) string {
	var b strings.Builder
	for i, text := range f.Texts {
		b.WriteString(text)
		if i < len(f.Params) {
			b.WriteString("$" + strconv.Itoa(i+1))
		}
	}
	return b.String()
}

// feedbackBegin bounds what one statement may take. The relay's own limits come back when feedbackUndo rolls the savepoint back, or when feedChunk
// releases it: no limit may cut off a COMMIT that waits for a standby.
const (
	feedbackBegin = "SAVEPOINT tailbox_feedback; SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '2s'"
	feedbackUndo  = "ROLLBACK TO SAVEPOINT tailbox_feedback; RELEASE SAVEPOINT tailbox_feedback"
)

// visibleWait is the longest pause between two checks whether a transaction has become visible.
const visibleWait = 50 * time.Millisecond

// AwaitRows implements relational.Feeder: it waits until the transactions of the messages are visible (R5). The log shows a transaction
// before others see its rows, so a statement could miss a business row that was written with the message, and nothing would repeat it. The
// wait cannot be in the way of those transactions: they have written their commit, and take no lock any more.
func (a *attempt) AwaitRows(ctx context.Context, told []feedback.Told) error {
	snap, wait := a.snap, time.Millisecond
	for i := 0; i < len(told); {
		if txn := told[i].Outcome.Message.Txn; txn == 0 || snap.visible(txn) {
			i++
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, visibleWait)
		var text string
		err := a.s.Conn.QueryRow(ctx, "SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text").Scan(&text)
		if err == nil {
			snap, err = parseSnapshot(text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errParams: the server finds other parameters in a statement than we do, for example if comments are nested. pgx would refuse the statement without
// asking the server.
var errParams = errors.New("the server finds other parameters in the statement: keep names with a colon out of nested comments")

// Hopeless implements relational.Feeder: the statement is wrong, or the role lacks a right that it needs.
func (a *attempt) Hopeless(why error) bool {
	return strings.HasPrefix(pgerr.State(why), "42") || errors.Is(why, errParams)
}

// FeedChunk implements relational.Feeder, under a savepoint.
func (a *attempt) FeedChunk(ctx context.Context, chunk []feedback.Told) (failed int, why error, err error) {
	conn, begin := a.s.Conn, feedbackBegin
	if !a.rolePath {
		begin += "; " + a.s.path.Set()
	}
	if _, err := conn.Exec(ctx, begin); err != nil {
		return 0, nil, err
	}
	undo := func(at int, why error) (int, error, error) {
		if conn.IsClosed() || pgerr.State(why) == "" && !errors.Is(why, errParams) {
			return 0, nil, why
		}
		_, err := conn.Exec(ctx, feedbackUndo)
		return at, why, err
	}
	for i := range chunk {
		if err := a.s.prepared.prepare(ctx, a.s.Conn, chunk[i].Feedback); err != nil {
			return undo(i, err)
		}
		if len(a.s.prepared.of[chunk[i].Feedback].ParamOIDs) != len(chunk[i].Params) {
			return undo(i, errParams)
		}
	}
	b := &pgx.Batch{}
	at := 0
	for i := range chunk {
		p := a.s.prepared.of[chunk[i].Feedback]
		b.Queue(p.Name, feedbackArgs(&chunk[i], p.ParamOIDs)...).Exec(func(tag pgconn.CommandTag) error {
			chunk[at].Unchanged = tag.RowsAffected() == 0
			at++
			return nil
		})
	}
	// A constraint that is checked at the end of the transaction is checked now, or the settlement would fail with it.
	b.Queue("SET CONSTRAINTS ALL IMMEDIATE")
	if err := a.s.send(ctx, b); err != nil {
		if at == len(chunk) {
			at = -1
		}
		return undo(at, err)
	}
	a.rolePath, a.touched = true, true
	_, err = conn.Exec(ctx, "RELEASE SAVEPOINT tailbox_feedback; SET LOCAL statement_timeout = 0; "+a.ownLockTimeout())
	return 0, nil, err
}

// ownLockTimeout brings back what feedbackBegin has changed.
func (a *attempt) ownLockTimeout() string {
	if a.SkipLocked {
		return a.lockWait
	}
	return longWait
}

// prepare prepares a statement once a session.
func (p *preparation) prepare(ctx context.Context, conn *pgx.Conn, f *source.Feedback) error {
	if p.of[f] != nil {
		return nil
	}
	p.next++
	description, err := conn.Prepare(ctx, "tailbox_feedback_"+strconv.Itoa(p.next), FeedbackSQL(f))
	if err == nil {
		p.of[f] = description
	}
	return err
}

// feedbackArgs are the parameters of a statement: the server reads each as text of the type that its place asks for.
func feedbackArgs(t *feedback.Told, types []uint32) []any {
	args := make([]any, len(t.Params))
	for i, p := range t.Params {
		v, null := p.Value(&t.Outcome)
		switch {
		case null:
		case types[i] == pgtype.ByteaOID:
			args[i] = []byte(v)
			if digits, ok := strings.CutPrefix(v, `\x`); ok && p.Column {
				if b, err := hex.DecodeString(digits); err == nil {
					args[i] = b // the text form of a bytea column's value, turned back into bytes
				}
			}
		default:
			args[i] = v
		}
	}
	return args
}

// ReadKeys implements relational.Feeder.
func (a *attempt) ReadKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error) {
	b := &pgx.Batch{}
	a.queuePinned(b)
	if err := a.s.send(ctx, b); err != nil {
		return nil, err
	}
	return a.s.ReadKeys(ctx, keys)
}

// queueFailures writes down what failed, where an operator looks for it: one row of tailbox_request by table and outcome. While that table is
// locked, what is counted and logged has to do.
func (a *attempt) queueFailures(b *pgx.Batch) {
	if a.s.locks.requests {
		return
	}
	for _, f := range a.s.Failures() {
		selection := f.Selection()
		b.Queue(a.s.SQL(`WITH old AS (UPDATE {request} SET requested_at = now(), done_at = now(), reason = $3, result = $4::json
				WHERE id = (SELECT max(id) FROM {request} WHERE pipeline = $1 AND verb = 'feedback' AND selection::text = $2) RETURNING id)
			INSERT INTO {request} (pipeline, verb, selection, reason, "by", done_at, result)
			SELECT $1, 'feedback', $2::json, $3, 'tailbox', now(), $4::json WHERE NOT EXISTS (SELECT FROM old)`),
			a.s.Cfg.Pipeline, selection, a.s.encoding.Fit(f.Error), f.Result())
	}
}
