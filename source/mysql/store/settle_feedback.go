package store

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/store/feedback"
)

// AwaitRows implements relational.Feeder. Statements that change no row find that out (see FeedChunk).
func (a *attempt) AwaitRows(context.Context, []feedback.Told) error { return nil }

// ReadKeys implements relational.Feeder.
func (a *attempt) ReadKeys(ctx context.Context, keys []checkpoint.Key) ([]checkpoint.Parked, error) {
	return a.s.ReadKeys(ctx, keys)
}

// Hopeless implements relational.Feeder: the statement is wrong, or may not do what it does.
func (a *attempt) Hopeless(why error) bool {
	switch server.Code(why) {
	case server.CodeNoSuchTable, server.CodeNoSuchDatabase, server.CodeNoSuchColumn, server.CodeTableDenied, server.CodeColumnDenied, server.CodeDatabaseDenied, server.CodeProcDenied, server.CodeSpecificDenied, server.CodeSyntax:
		return true
	}
	return false
}

// FeedChunk implements relational.Feeder, under a savepoint, which the next one replaces. A deadlock ends the transaction, and with innodb_rollback_on_timeout
// a lock that is waited for in vain does as well: then there is no savepoint any more.
func (a *attempt) FeedChunk(ctx context.Context, chunk []feedback.Told) (failed int, why error, err error) {
	b := a.s.Batch()
	b.Exec("SAVEPOINT tailbox_feedback")
	all := make([]int, len(chunk))
	for i := range chunk {
		all[i] = i
	}
	failed, why, err = a.feedStatements(ctx, b, chunk, all)
	if why != nil || err != nil {
		return failed, why, err
	}
	missed := slices.DeleteFunc(all, func(i int) bool { return !chunk[i].Unchanged })
	if len(missed) == 0 {
		return 0, nil, nil
	}
	// The log shows a transaction before others see its rows (R5), and a statement that looks for a business row without an index passes
	// over one that was written with the message. A look at the message's row waits for the transaction.
	for _, i := range missed {
		o := &chunk[i].Outcome
		if t := a.s.tables.ByName[o.Message.Table]; t != nil && o.Message.Position.Commit != 0 {
			if err := t.QueueLook(b, []string{o.RowID}, shareLock(a.s.Conn.Server), func(string) {}); err != nil {
				return i, err, nil
			}
		}
	}
	return a.feedStatements(ctx, b, chunk, missed)
}

// feedStatements adds these statements of a chunk to a batch, and sends it.
func (a *attempt) feedStatements(ctx context.Context, b *session.Batch, chunk []feedback.Told, which []int) (failed int, why error, err error) {
	at := 0
	for _, i := range which {
		sql := feedbackSQL(&chunk[i])
		if len(sql) > a.s.MaxPacket-2*session.PacketSlack {
			return i, fmt.Errorf("the statement has %d bytes, and max_allowed_packet is %d", len(sql), a.s.MaxPacket), nil
		}
		b.Queue(func(got session.Answer) error {
			chunk[i].Unchanged = got.Rows == nil && got.Affected == 0
			at++
			return nil
		}, "?", quote.Raw(sql))
	}
	why = a.s.Send(ctx, b)
	switch {
	case why == nil:
		return 0, nil, nil
	case server.Answer(why) == nil, server.Code(why) == server.CodeDeadlock, server.Code(why) == server.CodeChangedSince:
		return 0, nil, why
	}
	b.Exec("ROLLBACK TO SAVEPOINT tailbox_feedback")
	if err := a.s.Send(ctx, b); err != nil {
		if server.Code(err) == server.CodeNoSavepoint {
			return 0, nil, why
		}
		return 0, nil, err
	}
	if at == len(which) {
		return -1, why, nil
	}
	return which[at], why, nil
}

// shareLock is the locking read that needs no other right than SELECT.
func shareLock(s server.Version) string {
	if s.MariaDB {
		return "LOCK IN SHARE MODE"
	}
	return "FOR SHARE"
}

// feedbackSQL is the statement with its values.
func feedbackSQL(t *feedback.Told) string {
	var b []byte
	for i, text := range t.Texts {
		b = append(b, text...)
		if i >= len(t.Params) {
			break
		}
		v, null := t.Params[i].Value(&t.Outcome)
		switch {
		case null:
			b = append(b, "NULL"...)
		case utf8.ValidString(v):
			b = quote.Append(b, v)
		default:
			b = quote.Append(b, quote.Bin(v))
		}
	}
	return string(b)
}

// queueFailures writes down what failed, where an operator looks for it: one row of tailbox_request by table and outcome.
func (a *attempt) queueFailures(b *session.Batch) {
	for _, f := range a.s.Failures() {
		p := a.s.Config.Pipeline
		b.Exec(`UPDATE {request} SET requested_at = UTC_TIMESTAMP(6), done_at = UTC_TIMESTAMP(6), reason = ?, result = ?
			WHERE pipeline = ? AND verb = 'feedback' AND JSON_UNQUOTE(JSON_EXTRACT(selection, '$.table')) = ?
				AND JSON_UNQUOTE(JSON_EXTRACT(selection, '$.outcome')) = ?`, f.Error, f.Result(), p, f.Table, f.Outcome)
		b.Exec("INSERT INTO {request} (pipeline, verb, selection, reason, `by`, done_at, result) SELECT ?, 'feedback', ?, ?, 'tailbox', UTC_TIMESTAMP(6), ? "+
			"FROM DUAL WHERE ROW_COUNT() = 0", p, f.Selection(), f.Error, f.Result())
	}
}
