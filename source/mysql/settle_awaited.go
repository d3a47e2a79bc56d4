package mysql

import (
	"context"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source/mysql/sqltext"
)

// awaitedAfter is how long a table is locked before somebody who waits for it, and whom this account may not see, is taken for granted.
const awaitedAfter = time.Minute

// awaited tells whether somebody waits to lock one of the tables against all others: a statement other than those that read and write rows,
// which wait alike. Statements of other accounts show with the right PROCESS only.
func (s *stateStore) awaited(ctx context.Context, locked map[string]bool) (yes bool, err error) {
	if len(locked) == 0 {
		s.lockedSince = time.Time{}
		return false, nil
	}
	if s.lockedSince.IsZero() {
		s.lockedSince = time.Now()
	}
	b := s.batch()
	b.each(func(r row) error {
		const database, state, statement = 3, 6, 7
		if r.text(state) != "Waiting for table metadata lock" || !s.mentioned(locked, r.text(database), r.text(statement)) {
			return nil
		}
		switch verb, _ := sqltext.Verb(sqltext.WithoutSettings(sqltext.Bare(r.bytes(statement)))); verb {
		case "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "TABLE":
		default:
			yes = true
		}
		return nil
	}, "SHOW PROCESSLIST")
	if err := s.send(ctx, b); err != nil {
		return false, storeFault("look who waits for a table", err)
	}
	return yes || time.Since(s.lockedSince) > awaitedAfter, nil
}

// mentioned tells whether a statement names one of the tables.
func (s *stateStore) mentioned(names map[string]bool, database, statement string) bool {
	statement = strings.ToLower(statement)
	for _, t := range s.tables.order {
		if names[t.String()] && strings.Contains(statement, strings.ToLower(t.Name)) && (database == t.Schema || strings.Contains(statement, strings.ToLower(t.Schema))) {
			return true
		}
	}
	return false
}
