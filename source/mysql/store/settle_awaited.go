package store

import (
	"context"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/mysql/session"
	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// awaitedAfter is how long a table is locked before somebody who waits for it, and whom this account may not see, is taken for granted.
const awaitedAfter = time.Minute

// Awaited implements relational.Database. It looks for statements other than those that read and write rows, which wait alike. Statements of other accounts show with the right PROCESS only.
func (s *Store) Awaited(ctx context.Context, locked map[string]bool) (yes bool, err error) {
	if len(locked) == 0 {
		s.lockedSince = time.Time{}
		return false, nil
	}
	if s.lockedSince.IsZero() {
		s.lockedSince = time.Now()
	}
	b := s.Batch()
	b.Each(func(r session.Row) error {
		const database, state, statement = 3, 6, 7
		if r.Text(state) != "Waiting for table metadata lock" || !s.mentioned(locked, r.Text(database), r.Text(statement)) {
			return nil
		}
		switch verb, _ := sqltext.Verb(sqltext.WithoutSettings(sqltext.Bare(r.Bytes(statement)))); verb {
		case "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "TABLE":
		default:
			yes = true
		}
		return nil
	}, "SHOW PROCESSLIST")
	if err := s.Send(ctx, b); err != nil {
		return false, server.Fault("look who waits for a table", err)
	}
	return yes || time.Since(s.lockedSince) > awaitedAfter, nil
}

// mentioned reports whether a statement names one of the tables.
func (s *Store) mentioned(names map[string]bool, database, statement string) bool {
	statement = strings.ToLower(statement)
	for _, t := range s.tables.Order {
		if names[t.String()] && strings.Contains(statement, strings.ToLower(t.Name)) && (database == t.Schema || strings.Contains(statement, strings.ToLower(t.Schema))) {
			return true
		}
	}
	return false
}
