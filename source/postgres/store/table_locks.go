package store

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/tailbox/tailbox/source/postgres/pgerr"
	"github.com/tailbox/tailbox/source/postgres/usertable"
)

// tableLocks is what is known of the locks that others hold on whole tables, as ALTER TABLE, TRUNCATE and VACUUM FULL do.
type tableLocks struct {
	conn *pgx.Conn
	log  *slog.Logger
	// found are the outbox tables that the last settlement found locked.
	found map[string]bool
	// requests: the table of requests is locked, so they wait, and no failures of feedback are written there.
	requests bool
}

// still returns the tables that were locked at the last settlement and still are. Otherwise each settlement would wait for them, and hold up the
// other tables, too. It ignores other errors of the server about a table: they come up again when the table is used.
func (l *tableLocks) still(ctx context.Context, tables []*usertable.Table) (map[string]bool, error) {
	locked := make(map[string]bool)
	for _, t := range tables {
		if !l.found[t.String()] {
			continue
		}
		switch err := l.try(ctx, t.SQL); {
		case pgerr.State(err) == pgerr.LockNotAvailable:
			locked[t.String()] = true
		case err != nil && pgerr.State(err) == "":
			return nil, pgerr.Fault("look whether table "+t.String()+" is still locked", err)
		}
	}
	return locked, nil
}

// try takes the lock that writing rows of a table takes, without waiting for it, and gives it up.
func (l *tableLocks) try(ctx context.Context, table string) error {
	return pgx.BeginFunc(ctx, l.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "LOCK TABLE "+table+" IN ROW EXCLUSIVE MODE NOWAIT")
		return err
	})
}

// lookAtRequests finds out whether others hold a lock on the table of requests that keeps the relay from writing to it.
func (l *tableLocks) lookAtRequests(ctx context.Context, table string) error {
	was := l.requests
	err := l.try(ctx, table)
	l.requests = pgerr.State(err) == pgerr.LockNotAvailable
	switch {
	case err != nil && !l.requests:
		return pgerr.Fault("look whether the table of requests is locked", err)
	case l.requests && !was:
		l.log.Warn("table is locked: requests wait until it is not", "table", table)
	}
	return nil
}
