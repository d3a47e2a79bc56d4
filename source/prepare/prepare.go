// Package prepare holds what init and check do alike in every database: it gathers findings about the database and about outbox tables, refuses
// what init had better not create, and lists the columns and privileges of outbox tables. The statements are those of each database, which
// passes functions that run them.
package prepare

import (
	"context"
	"errors"
	"fmt"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/columns"
	"github.com/tailbox/tailbox/source/store/check"
)

// A Checker gathers findings. The one of each database embeds it, and adds the questions.
type Checker struct {
	Findings []check.Finding
	// invalidWords are the tables whose status column cannot hold the words.
	invalidWords map[*outbox.Table]bool
}

// Add adds a finding.
func (c *Checker) Add(level check.Level, fix, what string, args ...any) {
	c.Findings = append(c.Findings, check.Finding{Level: level, What: fmt.Sprintf(what, args...), Fix: fix})
}

// Note adds a finding, unless it is nil.
func (c *Checker) Note(f *check.Finding) {
	if f != nil {
		c.Findings = append(c.Findings, *f)
	}
}

// A Question is one part of a check. An error means that it could not be answered.
type Question func(context.Context) error

// At is a question of `tailbox check`, named in its error.
func At(name string, ask Question) Question {
	return func(ctx context.Context) error {
		if err := ask(ctx); err != nil {
			return fmt.Errorf("check %s: %w", name, err)
		}
		return nil
	}
}

// Ask asks questions in their order, until one cannot be answered.
func Ask(ctx context.Context, questions []Question) error {
	for _, ask := range questions {
		if err := ask(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Prerequisites asks questions before init creates anything, and refuses with all problems found. why begins that error.
func (c *Checker) Prerequisites(ctx context.Context, why string, questions ...Question) error {
	if err := Ask(ctx, questions); err != nil {
		return fmt.Errorf("look whether all is there that is needed: %w", err)
	}
	var problems []error
	for _, f := range c.Findings {
		if f.Level == check.Problem {
			problems = append(problems, fmt.Errorf("%s: %s", f.What, f.Fix))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s:\n%w", source.ErrStop, why, errors.Join(problems...))
}

// RefuseNames refuses to create outbox tables that look as if they were there under another name. look tells whether init would create a
// table, and the names of those beside it.
func RefuseNames(tables []outbox.Table, look func(*outbox.Table) (create bool, beside []string, err error)) error {
	var refused []error
	for i := range tables {
		t := &tables[i]
		create, beside, err := look(t)
		if err != nil {
			return err
		}
		if !create {
			continue
		}
		if why := columns.Uncreated(t, beside, tables); why != "" {
			refused = append(refused, errors.New(why))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("%w: nothing was created:\n%w", source.ErrStop, errors.Join(refused...))
}

// ForeignShape is why init does not create a table or collection, which is named as the database does.
func ForeignShape(name, shape string) error {
	return fmt.Errorf("create %s: its shape %q belongs to its application: let that make it, or correct source.tables: %w", name, shape, source.ErrStop)
}

// Absent adds that an outbox table does not exist. what names it as the database does, own tells that init makes tables of its shape, and beside are
// the names of the tables beside it.
func (c *Checker) Absent(t *outbox.Table, what string, own bool, beside []string, configured []outbox.Table) {
	fix, hint := "create it, or correct source.tables", ""
	if own {
		fix = "run tailbox init"
	}
	if near := columns.NearTable(t, beside, configured); near != "" {
		fix, hint = "write the name as the database has it, or create the table with tailbox init --create-table", " (did you mean "+near+"?)"
	}
	c.Add(check.Problem, fix, "%s does not exist%s", what, hint)
}
