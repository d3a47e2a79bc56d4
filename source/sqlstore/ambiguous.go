package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
)

// ambiguous says why ids do not tell which messages a request is about; "" where they do, or where it has begun already. Tables that
// number their rows have the same ids, and one table may use an id again (see OwnIDs): nobody who names one means all of them, and
// an edit would give them one content. It is asked in the transaction that begins with the request, before anything is changed.
func (p *part) ambiguous(ctx context.Context) (string, error) {
	sel := &p.request.Selection
	if len(sel.IDs) == 0 || p.request.Verb == checkpoint.VerbSkip || p.result.After != nil {
		return "", nil
	}
	r := *p.request
	r.Selection.Limit = 0
	tables := make(map[string]bool)
	own := make(map[ParkedKey][]string) // ids by sink and table
	var several []string
	for at := (&RequestResult{}); ; {
		c, err := p.requests.Select(ctx, &r, at)
		if err != nil {
			return "", err
		}
		for i := range c.Rows {
			row := &c.Rows[i]
			tables[row.Table] = true
			place := ParkedKey{Sink: row.Sink, Table: row.Table}
			if own[place] = append(own[place], row.ID); len(own[place]) > 1 {
				several = own[place]
			}
		}
		if at.After = c.Last; c.End || c.Last == nil {
			break
		}
	}
	switch {
	case len(tables) > 1:
		return AmongTables(slices.Collect(maps.Keys(tables))), nil
	case r.Verb == checkpoint.VerbEdit && several != nil:
		slices.Sort(several)
		return fmt.Sprintf("several messages of one table have this id; their own ids are %s: name one by its own id, beginning with those that differ from this one",
			strings.Join(several, ", ")), nil
	}
	return "", nil
}

// AmongTables is what is said of ids that messages of several tables have.
func AmongTables(tables []string) string {
	slices.Sort(tables)
	return "the ids are of messages of several tables: name --table (in SQL: table), one of " + strings.Join(tables, ", ")
}
