package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// SharedLimit bounds how many rows are looked at for ids that several of them have.
const SharedLimit = 100_000

// SharedIDs is the finding for a table in which rows have the same id.
func SharedIDs(t *outbox.Table) *Finding {
	f := &Finding{Level: Problem, What: fmt.Sprintf("rows of table %s have the same %s: tailbox would take them for one message, and mark or delete all of them once it is delivered", t, t.Columns.ID),
		Fix: "name another column as id, or add one: docs/tables.md, \"A table without an id\", has the statement"}
	if t.OnDelivered == outbox.Keep {
		f.Level, f.What = Warning, fmt.Sprintf("rows of table %s have the same %s: consumers cannot tell their messages apart", t, t.Columns.ID)
	}
	return f
}

// MakeUnique is the fix for an id column that nothing keeps unique: a statement, which is wrong if the application writes several rows with one id.
func MakeUnique(statement string) string {
	return statement + "; but if the application gives several rows one id, name another column as id: docs/tables.md, \"A table without an id\""
}

// A StatusCount is how many rows have a status, as far as they were counted.
type StatusCount struct {
	Word string
	Rows int
}

// Limit bounds how many undelivered rows are counted.
const Limit = 100_000

// Undelivered is the finding for rows with a status that tailbox does not deliver, such as those that another program had in flight when tailbox took
// the table over; nil if there are none. counts has every status value except the one for delivered rows. started: a position was taken, without
// which tailbox cannot have written its value for dead. parked: messages of the table are parked, without which it cannot have written retrying or
// waiting.
func Undelivered(t *outbox.Table, counts []StatusCount, started, parked bool) *Finding {
	known := t.PendingWords()
	if started {
		known = append(known, t.Words.Dead) // the row of a dropped dead letter has this value, although nothing of it is parked
	}
	if parked {
		known = append(known, t.Words.Retrying, t.Words.Waiting)
	}
	var waiting, left []string
	total := 0
	for _, c := range counts {
		text := fmt.Sprintf("%s: %d", c.Word, c.Rows)
		total += c.Rows
		switch {
		case c.Word == t.Words.Delivered || c.Rows == 0:
		case slices.Contains(known, c.Word):
			waiting = append(waiting, text)
		default:
			left = append(left, text)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	what := fmt.Sprintf("table %s has rows with a status that tailbox does not deliver: %s", t, strings.Join(left, ", "))
	if len(waiting) > 0 {
		what += "; others: " + strings.Join(waiting, ", ")
	}
	if total >= Limit {
		what += fmt.Sprintf("; only %d rows were counted", total)
	}
	fix := "if they are still to be delivered, stop the program that had them, and list their words under the table: words: {pending: [" +
		strings.Join(t.PendingWords(), ", ") + ", …]}; tailbox init takes them with the first position, tailbox run with a reconciliation"
	if slices.ContainsFunc(counts, func(c StatusCount) bool { return c.Word == t.Words.Dead && c.Rows > 0 }) && !slices.Contains(known, t.Words.Dead) {
		again := fmt.Sprintf("rows with the status %s were given up: to deliver one, set its status to %s", t.Words.Dead, t.Words.Pending)
		if len(left) == 1 {
			fix = again
		} else {
			fix = again + "; the others: " + fix
		}
	}
	return &Finding{Level: Warning, What: what, Fix: fix}
}
