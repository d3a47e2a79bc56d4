package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
)

// ambiguous returns why the request's ids do not identify its messages; "" if they do, or if the request has begun already. Tables that number their
// rows share ids, and a table may use an id again (see OwnIDs). Whoever names an id means one message, and an edit would give all of them the same
// content. apply calls it in the request's first transaction, before it changes anything.
func (p *requestStep) ambiguous(ctx context.Context) (string, error) {
	sel := &p.request.Selection
	if len(sel.IDs) == 0 || p.request.Verb == checkpoint.VerbSkip || p.result.After != nil {
		return "", nil
	}
	r := *p.request
	r.Selection.Limit = 0
	found := NewIDTables(sel.IDs)
	own := make(map[ParkedKey][]string) // ids by sink and table
	var several []string
	for at := (&RequestResult{}); ; {
		c, err := p.requests.Select(ctx, &r, at)
		if err != nil {
			return "", err
		}
		for i := range c.Rows {
			row := &c.Rows[i]
			found.Add(row.ID, row.Table)
			place := ParkedKey{Sink: row.Sink, Table: row.Table}
			if own[place] = append(own[place], row.ID); len(own[place]) > 1 {
				several = own[place]
			}
		}
		if at.After = c.Last; c.End || c.Last == nil {
			break
		}
	}
	switch why := found.Ambiguous(); {
	case why != "":
		return why, nil
	case r.Verb == checkpoint.VerbEdit && several != nil:
		slices.Sort(several)
		return fmt.Sprintf("several messages of one table have this id; their own ids are %s: name one by its own id, beginning with those that differ from this one",
			strings.Join(several, ", ")), nil
	}
	return "", nil
}

// IDTables are the tables of the messages that ids name.
type IDTables struct {
	byID map[string]map[string]bool
	all  map[string]bool
	// edited: a message was found by an id that an edit gave it. Add cannot tell which of the ids that is.
	edited bool
}

// NewIDTables begins with no messages.
func NewIDTables(ids []string) *IDTables {
	t := &IDTables{byID: make(map[string]map[string]bool, len(ids)), all: make(map[string]bool)}
	for _, id := range ids {
		t.byID[id] = make(map[string]bool)
	}
	return t
}

// Add takes in a message, by the id of its row.
func (t *IDTables) Add(rowID, table string) {
	t.all[table] = true
	if named, ok := t.byID[rowID]; ok {
		named[table] = true
	} else {
		t.edited = true
	}
}

// Ambiguous returns why the ids do not tell which messages are meant; "" if each is of one table.
func (t *IDTables) Ambiguous() string {
	tables := make(map[string]bool)
	for _, named := range t.byID {
		if len(named) > 1 {
			maps.Copy(tables, named)
		}
	}
	if t.edited && len(t.all) > 1 {
		tables = t.all
	}
	if len(tables) == 0 {
		return ""
	}
	return "the ids are of messages of several tables: name --table (in SQL: table), one of " + strings.Join(slices.Sorted(maps.Keys(tables)), ", ")
}
