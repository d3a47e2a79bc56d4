package prepare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
)

// Markable looks for a column that shows that a row was delivered. has tells whether the table has a column.
func (c *Checker) Markable(t *outbox.Table, has func(string) bool) {
	if t.OnDelivered == outbox.Mark && !has(t.Columns.Status) && !has(t.Columns.DeliveredAt) {
		c.Add(check.Problem, "name the column under source.tables.columns (status or delivered_at), or set on_delivered to delete or keep",
			"table %s is to be marked, but has no column for it", t)
	}
}

// Retained looks for the column by which rows grow old, whose type the fix names.
func (c *Checker) Retained(t *outbox.Table, has func(string) bool, timeType string) {
	if t.Retention > 0 && !has(t.Columns.DeliveredAt) {
		c.Add(check.Problem, "name a column of type "+timeType+" under source.tables.columns.delivered_at",
			"table %s has a retention, but no column that says when a row was delivered", t)
	}
}

// Words reports why the status column cannot hold the words.
func (c *Checker) Words(t *outbox.Table, faults []string) {
	for _, fault := range faults {
		c.Add(check.Problem, "see words in docs/tables.md", "table %s: %s", t, fault)
		if c.invalidWords == nil {
			c.invalidWords = map[*outbox.Table]bool{}
		}
		c.invalidWords[t] = true
	}
}

// InvalidWords reports whether Words reported anything about the table.
func (c *Checker) InvalidWords(t *outbox.Table) bool { return c.invalidWords[t] }

// Statuses looks for rows that are neither delivered nor pending. started tells whether a position was ever taken, count returns how many rows have
// each word but that for delivered ones, and parked tells whether deliveries of the table are parked.
func (c *Checker) Statuses(ctx context.Context, t *outbox.Table, started func(context.Context) (bool, error),
	count func(context.Context) ([]check.StatusCount, error), parked func(context.Context) (bool, error)) error {
	if c.InvalidWords(t) {
		return nil
	}
	before, err := started(ctx)
	if err != nil {
		return err
	}
	counts, err := count(ctx)
	if err != nil || len(counts) == 0 {
		return err
	}
	held := false
	if before {
		if held, err = parked(ctx); err != nil {
			return err
		}
	}
	c.Note(check.Undelivered(t, counts, before, held))
	return nil
}

// Foreign reports a table that does not exist, and that init does not make.
func (c *Checker) Foreign(t *outbox.Table, name string) {
	c.Add(check.Problem, "let its application make it, or correct source.tables", "table %s does not exist, and its shape %q is not one that tailbox makes", name, t.Shape)
}

// Polled looks whether tables can be polled in order. reasons returns what keeps one from it, and what makes rows come late.
func Polled[T any](c *Checker, configured int, tables []T, reasons func(T) (fatal, other []check.Reason, err error)) error {
	if configured > 1 {
		c.Add(check.Problem, "give each table a pipeline of its own", "source.read is poll, and there are %d tables, whose sequences have no common order", configured)
	}
	for _, t := range tables {
		fatal, other, err := reasons(t)
		if err != nil {
			return err
		}
		for i, reason := range slices.Concat(fatal, other) {
			level := check.Problem
			if i >= len(fatal) {
				level = check.Warning
			}
			c.Add(level, reason.Fix, "%s", reason.What)
		}
	}
	return nil
}

// Feedback has the server judge the feedback statements of a table. parse reads one; try returns the server's refusal ("" if it takes the
// statement), and what fixes it.
func (c *Checker) Feedback(t *outbox.Table, parse func(outcome, sql string) (*source.Feedback, error),
	try func(*source.Feedback) (refusal, fix string, err error)) error {
	for _, outcome := range slices.Sorted(maps.Keys(t.Feedback)) {
		f, err := parse(outcome, t.Feedback[outcome])
		if err != nil {
			c.Add(check.Problem, "correct source.tables", "feedback %s of table %s %v", outcome, t, err)
			continue
		}
		refusal, fix, err := try(f)
		if err != nil {
			return err
		}
		if refusal != "" {
			c.Add(check.Problem, fix, "feedback %s of table %s cannot be carried out: %s", outcome, t, refusal)
		}
	}
	return nil
}

// FeedbackNote says in a script which rights the feedback of a table takes.
func FeedbackNote(t *outbox.Table) string {
	var b strings.Builder
	for _, outcome := range slices.Sorted(maps.Keys(t.Feedback)) {
		fmt.Fprintf(&b, "-- The feedback %s of table %s also takes %s on the tables that it names\n", outcome, t.Name, source.FeedbackRights(t.Feedback[outcome]))
	}
	return b.String()
}

// A Constraint is a CHECK constraint that looks at columns that the relay writes. Unsure: it looks at values that check does not know, too.
type Constraint struct {
	Name, Condition string
	Columns         []string
	Unsure          bool
}

// Constraint looks whether a constraint refuses a change that the relay makes to rows. try has the server judge the row after a change;
// refusal is its answer if it cannot.
func (c *Checker) Constraint(t *outbox.Table, samples []store.Sample, k *Constraint, try func(*store.Sample) (takes bool, refusal string, err error)) error {
	const fix = "let the constraint take it, or correct source.tables (words, columns, or set if a further column has to change with the status)"
	for i := range samples {
		takes, refusal, err := try(&samples[i])
		switch {
		case err != nil:
			return err
		case refusal != "":
			c.Add(check.Warning, fix, "table %s has the CHECK constraint %s on %s, which the relay writes: whether it takes that could not be tried: %s",
				t, k.Name, strings.Join(k.Columns, ", "), refusal)
		case takes:
			continue
		case k.Unsure:
			c.Add(check.Warning, fix, "table %s has the CHECK constraint %s, which may refuse what the relay writes to the row of a %s message: %s",
				t, k.Name, samples[i].State, k.Condition)
		default:
			c.Add(check.Problem, fix, "table %s has the CHECK constraint %s, which refuses what the relay writes to the row of a %s message: %s",
				t, k.Name, samples[i].State, k.Condition)
		}
		return nil
	}
	return nil
}

// UniqueIndex looks whether two rows that get the same change are alike in a unique index, on whose columns that is all there is. drop removes it.
func (c *Checker) UniqueIndex(t *outbox.Table, samples []store.Sample, name, drop string, columns []string, alike func(*store.Sample) (bool, error)) error {
	for i := range samples {
		both, err := alike(&samples[i])
		if err != nil {
			return fmt.Errorf("try index %s: %w", name, err)
		}
		if both {
			c.Add(check.Problem, drop, "table %s has the unique index %s on %s, in which the rows of two %s messages would be alike",
				t, name, strings.Join(columns, ", "), samples[i].State)
			return nil
		}
	}
	return nil
}
