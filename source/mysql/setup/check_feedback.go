package setup

import (
	"context"
	"strings"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mysql/catalog"
	"github.com/tailbox/tailbox/source/mysql/quote"
	"github.com/tailbox/tailbox/source/mysql/server"
)

// feedback has the server prepare what business rows are told, which shows what is wrong with it and what the account may not
// do, without doing it.
func (c *checker) feedback(ctx context.Context, t *catalog.Table) error {
	return c.Feedback(&t.Table, source.ParseFeedbackMySQL, func(f *source.Feedback) (refusal, fix string, err error) {
		_, why := c.conn.Exec(ctx, "PREPARE tailbox_check FROM "+quote.Text(strings.Join(f.Texts, "?")))
		if e := server.Answer(why); e != nil {
			return e.Message, feedbackFix(e.Code, f), nil
		}
		if why == nil {
			_, why = c.conn.Exec(ctx, "DEALLOCATE PREPARE tailbox_check")
		}
		return "", "", why
	})
}

// feedbackFix is what mends a statement that the server refuses.
func feedbackFix(code uint16, f *source.Feedback) string {
	switch code {
	case server.CodeTableDenied, server.CodeColumnDenied, server.CodeDatabaseDenied, server.CodeProcDenied, server.CodeSpecificDenied:
		return "GRANT " + source.FeedbackRights(f.Texts[0]) + " to the relay's account"
	case server.CodeNoSuchTable, server.CodeNoSuchColumn, server.CodeNoSuchDatabase:
		return "create what is missing, or correct the statement: tables without a database are looked up in that of source.url"
	}
	return "correct the statement"
}
