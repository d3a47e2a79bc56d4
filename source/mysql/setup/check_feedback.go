package setup

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
	"github.com/tailbox/tailbox/source/store/check"
)

// feedback has the server prepare what business rows are told, which shows what is wrong with it and what the account may not
// do, without doing it.
func (c *checker) feedback(ctx context.Context, t *catalog.Table) error {
	for _, outcome := range slices.Sorted(maps.Keys(t.Feedback)) {
		f, err := source.ParseFeedbackMySQL(outcome, t.Feedback[outcome])
		if err != nil {
			c.add(check.Problem, "correct source.tables", "feedback %s of table %s %v", outcome, t, err)
			continue
		}
		_, why := c.conn.Exec(ctx, "PREPARE tailbox_check FROM "+quote.Text(strings.Join(f.Texts, "?")))
		switch e := server.Answer(why); {
		case why == nil:
			if _, err := c.conn.Exec(ctx, "DEALLOCATE PREPARE tailbox_check"); err != nil {
				return err
			}
		case e == nil:
			return why
		default:
			c.add(check.Problem, feedbackCure(e.Code), "feedback %s of table %s cannot be carried out: %s", outcome, t, e.Message)
		}
	}
	return nil
}

// feedbackCure is what mends a statement that the server refuses.
func feedbackCure(code uint16) string {
	switch code {
	case server.CodeTableDenied, server.CodeColumnDenied, server.CodeDatabaseDenied, server.CodeProcDenied, server.CodeSpecificDenied:
		return "GRANT SELECT, INSERT or UPDATE, as the statement asks for, to the relay's account"
	case server.CodeNoSuchTable, server.CodeNoSuchColumn, server.CodeNoSuchDatabase:
		return "create what is missing, or correct the statement: tables without a database are looked up in that of source.url"
	}
	return "correct the statement"
}
