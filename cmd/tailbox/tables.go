package main

import (
	"errors"
	"strings"
	"time"

	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store/feedback"
)

// kept tells the relay which tables keep their delivered rows as they are, with nothing to be told or noted about them.
func kept(tables []outbox.Table) func(string) bool {
	return among(tables, func(t *outbox.Table) bool {
		return t.OnDelivered == outbox.Keep && t.Columns.Receipt == "" && t.Feedback[outbox.OutcomeDelivered] == ""
	})
}

// receipts tells the relay of which tables' messages the sinks' answers are kept, or told; nil where there is none.
func receipts(tables []outbox.Table) func(string) bool {
	wanted := func(t *outbox.Table) bool {
		return t.Columns.Receipt != "" || strings.Contains(t.Feedback[outbox.OutcomeDelivered], ":receipt")
	}
	for i := range tables {
		if wanted(&tables[i]) {
			return among(tables, wanted)
		}
	}
	return nil
}

// ours tells the relay which messages are this pipeline's; nil where all are.
func ours(tables []outbox.Table) func(*outbox.Message) bool {
	limited := false
	for i := range tables {
		limited = limited || len(tables[i].Tenants) > 0
	}
	if !limited {
		return nil
	}
	return func(m *outbox.Message) bool {
		for i := range tables {
			if t := &tables[i]; named(t, m.Table) {
				return t.Ours(m)
			}
		}
		return true
	}
}

// cleanup is how often delivered rows are removed; 0 where no table has a retention.
func cleanup(s *config.Source) time.Duration {
	for i := range s.Tables {
		if s.Tables[i].Retention > 0 {
			return s.Cleanup
		}
	}
	return 0
}

// among reports whether a table is one of those that a condition is true of. Messages name their table with its schema; one
// that is configured without is found by the search path, so that any schema will do.
func among(tables []outbox.Table, is func(*outbox.Table) bool) func(string) bool {
	var names, anywhere []string
	for i := range tables {
		t := &tables[i]
		switch {
		case !is(t):
		case t.Schema == "":
			anywhere = append(anywhere, "."+t.Name)
		default:
			names = append(names, t.String())
		}
	}
	return func(table string) bool {
		for _, name := range names {
			if table == name {
				return true
			}
		}
		for _, name := range anywhere {
			if strings.HasSuffix(table, name) {
				return true
			}
		}
		return false
	}
}

// configuredName is a table's name as the configuration has it.
func configuredName(t *outbox.Table) string {
	if t.Schema == "" {
		return t.Name
	}
	return t.String()
}

// countFeedback counts under the names of tables that the configuration has.
func countFeedback(tables []outbox.Table, count func(table, outcome, result string, n int)) func(table, outcome string, n int, why error) {
	return func(table, outcome string, n int, why error) {
		for i := range tables {
			if t := &tables[i]; named(t, table) {
				table = configuredName(t)
				break
			}
		}
		result := admin.FeedbackDone
		switch {
		case errors.Is(why, feedback.ErrUnchanged):
			result = admin.FeedbackUnchanged
		case why != nil:
			result = admin.FeedbackFailed
		}
		count(table, outcome, result, n)
	}
}

// named reports whether a message's table is this one, which may be configured without a schema.
func named(t *outbox.Table, table string) bool {
	return t.String() == table || t.Schema == "" && strings.HasSuffix(table, "."+t.Name)
}
