package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/postgres/catalog"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
	pgstore "github.com/tailbox/tailbox/source/postgres/store"
)

// feedback has the server prepare and plan each feedback statement, without running it. That shows errors in the statement, and missing rights.
func (c *checker) feedback(ctx context.Context, t *catalog.Table) error {
	return c.Feedback(&t.Table, source.ParseFeedback, func(f *source.Feedback) (refusal, fix string, err error) {
		execute := "EXPLAIN EXECUTE tailbox_check"
		if n := len(f.Params); n > 0 {
			execute += "(" + strings.TrimSuffix(strings.Repeat("NULL,", n), ",") + ")"
		}
		why := c.try(ctx, "PREPARE tailbox_check AS "+pgstore.FeedbackSQL(f), execute)
		if pe := (*pgconn.PgError)(nil); errors.As(why, &pe) {
			return pe.Message, feedbackFix(pe, c.role, f), nil
		}
		return "", "", why
	})
}

// try runs statements in a transaction that is rolled back, as the store's session would.
func (c *checker) try(ctx context.Context, statements ...string) error {
	var why error
	for _, sql := range append([]string{"BEGIN", "SET LOCAL row_security = off", session.PathOf(c.conn.PgConn()).Set()}, statements...) {
		if _, why = c.conn.Exec(ctx, sql); why != nil {
			break
		}
	}
	_, err := c.conn.Exec(ctx, "ROLLBACK")
	if _, gone := c.conn.Exec(ctx, "DEALLOCATE tailbox_check"); why == nil && err == nil { // what is prepared outlives the transaction
		err = gone
	}
	return errors.Join(why, err)
}

// feedbackFix is what mends a statement that the server refuses.
func feedbackFix(pe *pgconn.PgError, role string, f *source.Feedback) string {
	switch pe.Code {
	case "42501":
		if strings.Contains(pe.Message, "row-level security") {
			return "ALTER ROLE " + sqltext.Ident(role) + " BYPASSRLS"
		}
		return "GRANT " + source.FeedbackRights(f.Texts[0]) + " to " + sqltext.Ident(role)
	case "42P01", "42703", "42883", "3F000":
		return "create what is missing, or correct the statement: names without a schema are looked up by the search path of source.url"
	case "42P18", "42804":
		return fmt.Sprintf("give the parameter a type, as in :name::%s", "uuid")
	}
	return "correct the statement"
}
