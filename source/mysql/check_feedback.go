package mysql

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

// feedback has the server prepare what business rows are told, which shows what is wrong with it and what the account may not
// do, without doing it.
func (c *checker) feedback(ctx context.Context, t *tableInfo) error {
	for _, outcome := range slices.Sorted(maps.Keys(t.Feedback)) {
		f, err := source.ParseFeedbackMySQL(outcome, t.Feedback[outcome])
		if err != nil {
			c.add(store.Problem, "correct source.tables", "feedback %s of table %s %v", outcome, t, err)
			continue
		}
		_, why := c.conn.exec(ctx, "PREPARE tailbox_check FROM "+quoteLiteral(strings.Join(f.Texts, "?")))
		switch e := serverError(why); {
		case why == nil:
			if _, err := c.conn.exec(ctx, "DEALLOCATE PREPARE tailbox_check"); err != nil {
				return err
			}
		case e == nil:
			return why
		default:
			c.add(store.Problem, feedbackCure(e.Code), "feedback %s of table %s cannot be carried out: %s", outcome, t, e.Message)
		}
	}
	return nil
}

// feedbackCure is what mends a statement that the server refuses.
func feedbackCure(code uint16) string {
	switch code {
	case errTableDenied, errColumnDenied, errAccessDenied, errProcDenied, errSpecificDenied:
		return "GRANT SELECT, INSERT or UPDATE, as the statement asks for, to the relay's account"
	case errNoSuchTable, errNoSuchColumn, errNoSuchDatabase:
		return "create what is missing, or correct the statement: tables without a database are looked up in that of source.url"
	}
	return "correct the statement"
}
