package prepare_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/check"
)

func table(t *testing.T, shape string) *outbox.Table {
	t.Helper()
	made, err := outbox.NewTable(shape, "shop.outbox")
	if err != nil {
		t.Fatal(err)
	}
	return &made
}

// found shows findings, each as "level what", with its fix if fixes are wanted.
func found(c *prepare.Checker, fixes bool) (list []string) {
	for _, f := range c.Findings {
		text := string(f.Level) + " " + f.What
		if fixes {
			text += ": " + f.Fix
		}
		list = append(list, text)
	}
	return list
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// errBroken is what a server says that is gone.
var errBroken = errors.New("broken")

// Questions are asked in their order, and the one that cannot be answered is named and ends the check.
func TestAsk(t *testing.T) {
	t.Parallel()
	var asked []string
	question := func(name string, err error) prepare.Question {
		return prepare.At(name, func(context.Context) error {
			asked = append(asked, name)
			return err
		})
	}
	err := prepare.Ask(t.Context(), []prepare.Question{question("a", nil), question("b", errBroken), question("c", nil)})
	if !errors.Is(err, errBroken) || err.Error() != "check b: broken" {
		t.Errorf("got %v", err)
	}
	equal(t, "questions that were asked", asked, []string{"a", "b"})
}

// init creates nothing if there is a problem, and says all problems at once. Warnings do not keep it.
func TestPrerequisites(t *testing.T) {
	t.Parallel()
	add := func(c *prepare.Checker, level check.Level, what string) prepare.Question {
		return func(context.Context) error {
			c.Add(level, "fix of "+what, "%s", what)
			return nil
		}
	}
	var c prepare.Checker
	if err := c.Prerequisites(t.Context(), "nothing was created", add(&c, check.Warning, "w"), add(&c, check.Info, "i")); err != nil {
		t.Errorf("without a problem: %v", err)
	}
	err := c.Prerequisites(t.Context(), "nothing was created", add(&c, check.Problem, "p"), add(&c, check.Problem, "q"))
	if !errors.Is(err, source.ErrStop) || !strings.HasSuffix(err.Error(), "nothing was created:\np: fix of p\nq: fix of q") {
		t.Errorf("got %v", err)
	}
	err = c.Prerequisites(t.Context(), "", func(context.Context) error { return errBroken })
	if !errors.Is(err, errBroken) || errors.Is(err, source.ErrStop) {
		t.Errorf("a question that cannot be answered: %v", err)
	}
}

// A table is not created if one of nearly its name is there. One that is there, or is not ours to make, is not judged.
func TestRefuseNames(t *testing.T) {
	t.Parallel()
	tables := []outbox.Table{*table(t, "tailbox"), *table(t, "tailbox")}
	tables[0].Name, tables[1].Name = "Outbox", "events"
	look := func(create bool) func(*outbox.Table) (bool, []string, error) {
		return func(*outbox.Table) (bool, []string, error) { return create, []string{"outbox", "event"}, nil }
	}
	if err := prepare.RefuseNames(tables, look(false)); err != nil {
		t.Errorf("nothing is to be created: %v", err)
	}
	err := prepare.RefuseNames(tables, look(true))
	if !errors.Is(err, source.ErrStop) || strings.Count(err.Error(), "did you mean") != 2 {
		t.Errorf("got %v, want both names refused", err)
	}
	if err := prepare.RefuseNames(tables, func(*outbox.Table) (bool, []string, error) { return false, nil, errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// A column that serves twice is defined once, one that the shape has no key for by its own name, and definitions of a shape go before common ones.
func TestColumnLines(t *testing.T) {
	t.Parallel()
	made := table(t, "tailbox")
	made.Columns = outbox.Columns{ID: "id", Payload: "body", Key: "id", Group: []string{"a", "b"}}
	made.Fields = []string{"b", "extra"}
	own := prepare.Columns{{"id", "uuid"}, {".trace", "int"}}
	all := own.Before(prepare.Columns{{"id", "text"}, {"payload", "jsonb"}, {"key", "text"}, {"group", "varchar"}, {"status", "text"}})
	lines, err := all.Lines(made, func(name string) string { return `"` + name + `"` }, "text")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "lines", lines, []string{"\t\"id\" uuid", "\t\"trace\" int", "\t\"body\" jsonb", "\t\"a\" varchar", "\t\"b\" varchar", "\t\"extra\" text"})
	made.Columns.Payload = ""
	if _, err := all.Lines(made, func(name string) string { return name }, "text"); err == nil {
		t.Error("a table without a payload is made")
	}
}

// The relay gets the rights that it uses, and no others.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on        outbox.OnDelivered
		receipt   string
		retention bool
		update    []string
		want      []string
	}{
		{outbox.Keep, "", false, nil, []string{"SELECT"}},
		{outbox.Keep, "", false, []string{"UPDATE"}, []string{"SELECT"}},
		{outbox.Keep, "receipt", false, nil, []string{"SELECT", "UPDATE"}},
		{outbox.Mark, "", false, nil, []string{"SELECT", "UPDATE"}},
		{outbox.Mark, "", true, nil, []string{"SELECT", "UPDATE", "DELETE"}},
		{outbox.Delete, "", false, nil, []string{"SELECT", "DELETE"}},
		{outbox.Delete, "", false, []string{"UPDATE"}, []string{"SELECT", "UPDATE", "DELETE"}},
	} {
		made := &outbox.Table{OnDelivered: c.on, Columns: outbox.Columns{Receipt: c.receipt}}
		if c.retention {
			made.Retention = 1
		}
		equal(t, fmt.Sprintf("%+v", c), prepare.Privileges(made, c.update...), c.want)
	}
	equal(t, "columns that are written", prepare.MarkColumns(&outbox.Table{Columns: outbox.Columns{ID: "id", Status: "st", DeliveredAt: "done", Receipt: "r"}, Set: []outbox.SetValue{{State: "dead", Column: "off"}}}), []string{"st", "done", "r", "off"})
}

// A table that is marked needs a column for it, and one with a retention the time of the delivery.
func TestMarkableAndRetained(t *testing.T) {
	t.Parallel()
	made := table(t, "tailbox")
	made.OnDelivered, made.Retention = outbox.Mark, 1
	for _, columns := range [][]string{nil, {"status"}, {"delivered_at"}} {
		var c prepare.Checker
		has := func(name string) bool { return slices.Contains(columns, name) }
		c.Markable(made, has)
		c.Retained(made, has, "timestamptz")
		want := map[int]int{0: 2, 1: 1}[len(columns)]
		if has("delivered_at") {
			want = 0
		}
		if len(c.Findings) != want {
			t.Errorf("columns %v: %q, want %d findings", columns, found(&c, false), want)
		}
	}
}

// Tables are polled one a pipeline. What makes rows late is a warning.
func TestPolled(t *testing.T) {
	t.Parallel()
	var c prepare.Checker
	reasons := func(name string) (fatal, other []check.Reason, err error) {
		if name == "" {
			return nil, nil, errBroken
		}
		return []check.Reason{{What: name + " has no index", Fix: "make one"}}, []check.Reason{{What: name + " is not unique", Fix: "make it so"}}, nil
	}
	if err := prepare.Polled(&c, 2, []string{"a"}, reasons); err != nil {
		t.Fatal(err)
	}
	equal(t, "findings", found(&c, true), []string{
		"problem source.read is poll, and there are 2 tables, whose sequences have no common order: give each table a pipeline of its own",
		"problem a has no index: make one", "warning a is not unique: make it so"})
	if err := prepare.Polled(&c, 1, []string{""}, reasons); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// Rows with a foreign status are looked for only if the words fit, and parked deliveries only after a first start.
func TestStatuses(t *testing.T) {
	t.Parallel()
	made := table(t, "tailbox")
	counts := []check.StatusCount{{Word: made.Words.Retrying, Rows: 2}, {Word: "sending", Rows: 3}}
	ask := func(c *prepare.Checker, started bool, counts []check.StatusCount) (asked bool) {
		err := c.Statuses(t.Context(), made, func(context.Context) (bool, error) { return started, nil },
			func(context.Context) ([]check.StatusCount, error) { return counts, nil },
			func(context.Context) (bool, error) { asked = true; return true, nil })
		if err != nil {
			t.Error(err)
		}
		return asked
	}
	for _, c := range []struct {
		started bool
		counts  []check.StatusCount
		want    string // in the only finding; "" = there is none
	}{{false, nil, ""}, {true, nil, ""}, {false, counts, "retrying: 2, sending: 3"}, {true, counts, "sending: 3; others: retrying: 2"}} {
		var checker prepare.Checker
		asked := ask(&checker, c.started, c.counts)
		if asked != (c.started && c.counts != nil) {
			t.Errorf("%+v: asked for parked deliveries: %v", c, asked)
		}
		if list := found(&checker, false); (c.want != "") != (len(list) == 1) || !strings.HasSuffix(strings.Join(list, ""), c.want) {
			t.Errorf("%+v: %q", c, list)
		}
	}
	var invalidWords prepare.Checker
	invalidWords.Words(made, []string{"status column st cannot hold it"})
	if ask(&invalidWords, true, counts); !invalidWords.InvalidWords(made) || len(invalidWords.Findings) != 1 {
		t.Errorf("of words that do not fit: %q", found(&invalidWords, false))
	}
	err := new(prepare.Checker).Statuses(t.Context(), made, func(context.Context) (bool, error) { return false, errBroken }, nil, nil)
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// Each statement of feedback is judged by the server, in the order of outcomes; one that cannot be read is not sent.
func TestFeedback(t *testing.T) {
	t.Parallel()
	made := table(t, "tailbox")
	made.Feedback = map[string]string{"delivered": "refused", "dead": "fine", "dropped": "unreadable"}
	var c prepare.Checker
	err := c.Feedback(made, func(outcome, sql string) (*source.Feedback, error) {
		if sql == "unreadable" {
			return nil, errBroken
		}
		return &source.Feedback{Texts: []string{sql}}, nil
	}, func(f *source.Feedback) (refusal, fix string, err error) {
		if f.Texts[0] == "refused" {
			return "no such table", "create it", nil
		}
		return "", "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "findings", found(&c, true), []string{
		"problem feedback delivered of table shop.outbox cannot be carried out: no such table: create it",
		"problem feedback dropped of table shop.outbox broken: correct source.tables"})
}

// A constraint is reported for the first change that it refuses, and is only a warning if check does not know all that it looks at.
func TestConstraint(t *testing.T) {
	t.Parallel()
	samples := []store.Sample{{State: "delivered"}, {State: "dead"}}
	for _, c := range []struct {
		unsure  bool
		refuses string
		refusal string
		want    string
	}{
		{false, "", "", ""},
		{false, "dead", "", "problem table shop.outbox has the CHECK constraint k, which refuses what the relay writes to the row of a dead message: c > 0"},
		{true, "delivered", "", "warning table shop.outbox has the CHECK constraint k, which may refuse what the relay writes to the row of a delivered message: c > 0"},
		{false, "", "no function", "warning table shop.outbox has the CHECK constraint k on c, which the relay writes: whether it takes that could not be tried: no function"},
	} {
		var checker prepare.Checker
		k := &prepare.Constraint{Name: "k", Condition: "c > 0", Columns: []string{"c"}, Unsure: c.unsure}
		if err := checker.Constraint(table(t, "tailbox"), samples, k, func(s *store.Sample) (bool, string, error) {
			return s.State != c.refuses, c.refusal, nil
		}); err != nil {
			t.Error(err)
		}
		equal(t, fmt.Sprintf("%+v", c), strings.Join(found(&checker, false), "; "), c.want)
	}
	if err := new(prepare.Checker).Constraint(table(t, "tailbox"), samples, &prepare.Constraint{}, func(*store.Sample) (bool, string, error) {
		return false, "", errBroken
	}); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// A unique index is reported once, for the first change that makes two rows alike.
func TestUniqueIndex(t *testing.T) {
	t.Parallel()
	var c prepare.Checker
	samples := []store.Sample{{State: "delivered"}, {State: "waiting"}, {State: "dead"}}
	if err := c.UniqueIndex(table(t, "tailbox"), samples, "i", "DROP INDEX i", []string{"a", "b"}, func(s *store.Sample) (bool, error) {
		return s.State != "delivered", nil
	}); err != nil {
		t.Fatal(err)
	}
	equal(t, "findings", found(&c, true), []string{"problem table shop.outbox has the unique index i on a, b, in which the rows of two waiting messages would be alike: DROP INDEX i"})
	if err := c.UniqueIndex(table(t, "tailbox"), samples, "i", "", nil, func(*store.Sample) (bool, error) { return false, errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}
