package store

import (
	"context"

	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/usertable"
	"github.com/tailbox/tailbox/source/store"
)

// A verdict is what is known of a row that was passed over.
type verdict bool

// Verdicts. A row that is gone stays gone: nobody uses an id twice. One that is there was locked, or is.
const (
	verdictGone  verdict = false
	verdictThere verdict = true
)

type verdicts map[store.MessageKey]verdict

// judgeMost bounds the questions of one judgement. What remains is taken to be there, and is asked again with the next
// settlement.
const judgeMost = 100

// unjudgedRows ends an attempt: rows were passed over, and nothing tells whether they are locked or gone. To ask may fail,
// and an error would take the transaction with it on servers that are set so (innodb_rollback_on_timeout): it is done
// between transactions.
type unjudgedRows struct{ ids map[*usertable.Table][]string }

func (*unjudgedRows) Error() string { return "rows were passed over" }

// judge finds out about rows that were passed over. A locking read that does not wait fails for a row that is locked, be it
// by an application or because the transaction that inserts it is not over, and finds none if it is gone.
func (s *Store) judge(ctx context.Context, unjudged *unjudgedRows, to verdicts) error {
	left := judgeMost
	for _, t := range s.tables.Order {
		name := t.String()
		todo := [][]string{unjudged.ids[t]}
		for len(todo) > 0 {
			ids := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if len(ids) == 0 {
				continue
			}
			there := make(map[string]bool)
			b := s.Batch()
			if err := t.QueueLook(b, ids, "FOR UPDATE NOWAIT", func(id string) { there[id] = true }); err != nil {
				return err
			}
			var err error
			if left--; left >= 0 {
				err = s.Send(ctx, b)
			}
			switch {
			case err == nil && left >= 0:
			case err != nil && !server.Passing(err):
				return server.Fault("look for rows of table "+name, err)
			case len(ids) > 1 && left >= 0:
				todo = append(todo, ids[:len(ids)/2], ids[len(ids)/2:])
				continue
			default:
				for _, id := range ids {
					there[id] = true
				}
			}
			for _, id := range ids {
				verdict := verdictGone
				if there[id] {
					verdict = verdictThere
				}
				to[store.MessageKey{Table: name, ID: id}] = verdict
			}
		}
	}
	return nil
}
