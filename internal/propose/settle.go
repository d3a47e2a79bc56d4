package propose

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store/report"
)

// settle chooses what becomes of a row once its message is delivered.
func (c *chooser) settle() {
	status, at := c.by["status"], c.by["delivered_at"]
	flag := c.findWritable(strings.Fields(flagNames), []report.Class{report.Bool}, hasTexts)
	number := c.findWritable(strings.Fields(flagNames), []report.Class{report.Number, report.Bool}, func(f *report.Column) bool {
		return hasTexts(f) && isBit(f) && (f.Class == report.Number || c.t.Quote == "`")
	})
	telltale, mark := c.telltale(), c.unusedMark()
	switch {
	case status != nil:
		c.words(status)
		c.askChecks(status)
		c.askDeleted()
		c.askFlags()
		return
	case number != nil && at == nil:
		c.flags(number, "0", "1")
		c.askLimit()
		c.askFlags()
		return
	case flag != nil && at == nil:
		c.flags(flag, "false", "true")
		c.askLimit()
		c.askFlags()
		return
	case at != nil:
		if flag == nil {
			flag = number
		}
		c.timed(at, flag)
		c.gaveUp()
		c.askLimit()
		c.askFlags()
	case telltale != nil && mayTell(telltale):
		words, _ := known(telltale)
		c.used[telltale.Name], c.Unused = true, except(c.Unused, telltale.Name)
		c.open(telltale, "its values do not tell what they mean", words)
	case telltale != nil && (telltale.Generated || !isMarkTime(telltale)):
		c.rest("on_delivered", `"`+Unknown+`"`, "see the questions")
		c.question("%s, of type %s, seems to tell what is delivered, but tailbox cannot use it. Write on_delivered: delete if a row may go once it is delivered; or keep, with a feedback statement that sets %s, unless the insert sets it.",
			telltale.Name, telltale.Type, telltale.Name)
	case telltale != nil || mark != nil:
		if telltale != nil {
			mark = telltale
		}
		c.rest("on_delivered", `"`+Unknown+`"`, "see the questions")
		c.question("Does %s, of type %s, tell which rows were delivered? If so, name it as status or delivered_at. If no column tells, write on_delivered: delete if a row may go once it is delivered, or keep.",
			mark.Name, mark.Type)
	case journal(c.t) && c.by["attempts"] == nil && c.by["failures"] == nil:
		c.rest("on_delivered", "keep", "nothing in a row tells that it is delivered, and the table looks like one that keeps its rows")
		c.question("tailbox leaves the rows as they are. If a row may go once it is delivered, write on_delivered: delete.")
		c.unwritten()
	default:
		c.rest("on_delivered", "delete", "nothing in a row tells that it is delivered")
		c.unwritten()
		c.question("tailbox deletes a row once it is delivered, also if the application has updated the row meanwhile. If rows have to stay or are updated, write on_delivered: keep. A row whose delivery fails leaves the table, too, and waits in tailbox_parked: docs/tables.md, \"on_delivered\", has the way to keep it.")
		if c.t.Rows > 0 {
			c.question("The table has rows, and nothing tells which of them were delivered. Delete those that were delivered or given up. Then write start: pending under source, so that tailbox delivers and deletes the others. It does so with every row: move those that are not for tailbox.")
		}
		return
	}
	if at == nil && c.t.Rows > 0 {
		unless := ""
		if mark != nil {
			unless = "unless you name such a column, "
		}
		c.question("The table has rows, and %snothing tells tailbox which of them were delivered. Let the program before deliver all of them. Then, if on_delivered is keep, write start: now under source. If it is delete, delete what was delivered or given up, and write start: pending.", unless)
	}
}

// timed takes a time that is set once a message is delivered. flag is one that may tell the same; nil for none.
func (c *chooser) timed(at, flag *report.Column) {
	zone := ""
	if at.Class == report.LocalTime {
		zone = " The column has no zone, and tailbox writes UTC."
	}
	c.rest("on_delivered", "mark", at.Name+" is set once the message is delivered")
	c.question("A row whose %s is NULL counts as pending, and tailbox sets it to the time of the delivery.%s If the program before set it earlier, such as when it took the row, write delivered_at: null, and on_delivered: delete or keep.", at.Name, zone)
	if flag == nil {
		return
	}
	name := quoted(flag.Name)
	if told, set := setRows(flag), c.t.Rows-at.Nulls; told != set {
		yes, no := truths(flag)
		c.used[flag.Name], c.Unused = true, except(c.Unused, flag.Name)
		c.perhaps("delivered_at", at.Name)
		c.question("%s is true in %d of the rows that were looked at, and %s has a time in %d, so one of the two does not tell what is delivered. Write delivered_at: %s if that one tells. "+
			"If the other one does, write delivered_at: null, status: %s, and all five under words, with %s for delivered and %s for the others.", flag.Name, told, at.Name, set, quoted(at.Name), name, yes, no)
		return
	}
	if flag.Class != report.Bool {
		return
	}
	c.set("delivered", flag, "true", "as the program before did")
	c.question("A row whose %s is NULL counts as pending, and one that has a time there does not, whatever %s says. If %s is also true for messages that were given up, write set: {dead: {%s: true}, delivered: {%s: true}, retrying: {%s: false}, waiting: {%s: false}}.",
		at.Name, flag.Name, flag.Name, name, name, name, name)
}

// truths are the two values of a flag, as the configuration writes them.
func truths(flag *report.Column) (yes, no string) {
	switch flag.Class {
	case report.Number:
		return "1", "0"
	case report.Text:
		return "'1'", "'0'"
	}
	return "true", "false"
}

// setRows is how many of the rows that were looked at have a flag set.
func setRows(flag *report.Column) (rows int) {
	for _, v := range flag.Values {
		if v.Text == "true" || v.Text == "1" {
			rows += v.Rows
		}
	}
	return rows
}

// unwritten takes away the columns that show attempts: without a status, tailbox deletes a row as soon as its deliveries are parked.
func (c *chooser) unwritten() {
	c.Columns = slices.DeleteFunc(c.Columns, func(s Setting) bool {
		written := s.Value != "null" && s.Key != "status" && s.Key != "delivered_at" && slices.Contains(writtenKeys(), s.Key)
		if written {
			c.Unused = append(c.Unused, c.by[s.Key].Name)
		}
		return written
	})
}

// unusedMark is a column that is not used and can tell two kinds of rows apart: a flag, or a time that is set later. It is nil if there is none.
func (c *chooser) unusedMark() *report.Column {
	return c.unused(func(column *report.Column, name string) bool {
		return !column.Generated && (isFlag(column) || tellsLater(column, name))
	})
}

// tellsLater reports whether a column, whose plain name is name, is a time that is set once something has become of the row.
func tellsLater(c *report.Column, name string) bool {
	return isMarkTime(c) && !strings.HasSuffix(name, "by") &&
		!hasPart(name, "lock", "expir", "until", "deadline", "start", "updated", "modified", "enqueuetime")
}

// isMarkTime reports whether a column is a time that may be set later.
func isMarkTime(c *report.Column) bool {
	return isTime(c) && mayBeEmpty(c)
}

func isTime(c *report.Column) bool { return c.Class == report.Time || c.Class == report.LocalTime }

// mayTell reports whether a column may hold words or numbers for states.
func mayTell(c *report.Column) bool {
	long := func(text string) bool { return len(text) > map[bool]int{true: 2, false: 20}[c.Class == report.Number] } // such as a time
	return !c.Generated && hasTexts(c) && hasWords(c) && (c.Class == report.Bool || (c.Class == report.Text || c.Class == report.Number) && !slices.ContainsFunc(c.Sample, long))
}

// hasTexts reports whether the words of a state can be texts of a column. MySQL's bits have none.
func hasTexts(c *report.Column) bool { return c.Type != "bit(1)" }

// isFlag reports whether a column is a boolean, or what MySQL has in its place.
func isFlag(c *report.Column) bool {
	return c.Class == report.Bool || c.Class == report.Number && isBit(c) && (strings.HasPrefix(c.Type, "tinyint") || strings.HasPrefix(c.Type, "bit"))
}

// askFlags asks about flags that nothing uses, beside a column that tells what is delivered, and about a time that may tell what was given up.
func (c *chooser) askFlags() {
	switch mark := c.unused(tellsLater); {
	case mark == nil || c.by["status"] != nil:
	case c.by["delivered_at"] != nil && among(deliveredNames, mark.Name):
		at := c.by["delivered_at"].Name
		c.question("Both %s and %s may tell that a message is delivered. tailbox takes %s: it delivers each row without a value there, and no other, whatever %s says. Name the other one as delivered_at if that is it.", at, mark.Name, at, mark.Name)
	case mark.Generated:
		c.question("tailbox does not look at %s, so rows count as pending also if it is set, and nobody can write it, because it is generated. If it is set once a message is given up, delete such rows, or mark them as delivered.", mark.Name)
	default:
		c.question("tailbox does not look at %s, so rows count as pending also if it is set. If it is set once a message is given up, write set: {dead: {%s: now}}.", mark.Name, quoted(mark.Name))
	}
	for i := range c.t.Columns {
		if column := &c.t.Columns[i]; !c.used[column.Name] && isFlag(column) {
			dead := ""
			if !column.Generated && !c.showsDead() && !slices.ContainsFunc(c.Columns, func(s Setting) bool { return s.Key == "status" }) {
				dead = " If a value means that the message was given up, write it under set.dead."
			}
			c.question("tailbox does not look at %s, so rows count as pending whatever it says. If a value of it means that a row must not go out, let the program before finish or delete such rows. "+
				"tailbox does not hold back one that is inserted later: put its message into this table once it may go out.%s", column.Name, dead)
		}
	}
}

// askDeleted asks about a time that may say that a row is deleted or cancelled.
func (c *chooser) askDeleted() {
	for i := range c.t.Columns {
		column := &c.t.Columns[i]
		if !c.used[column.Name] && isMarkTime(column) && hasPart(plain(column.Name), "delete", "cancel", "archive", "remove") {
			c.question("tailbox does not look at %s, so rows count as pending also if it is set. If such rows must not go out, delete them before tailbox run. For later ones, write tenant: %s under columns, and tenants: [\"\"] beside it: tailbox then takes only rows without a value in it.",
				column.Name, quoted(column.Name))
		}
	}
}

// askLimit asks about rows that a program gave up because of their number of attempts, or at the first error, if no other column tells.
func (c *chooser) askLimit() {
	count := c.by["attempts"]
	if count == nil {
		count = c.by["failures"]
	}
	failed, limit := c.by["last_error"], "a limit"
	if failed == nil {
		failed = c.unused(func(column *report.Column, name string) bool {
			return !column.NotNull && !isFlag(column) && hasPart(name, "error", "exception", "failreason", "failedreason", "failurereason")
		})
	}
	if most := c.by["max_attempts"]; most != nil {
		limit = most.Name
	}
	switch {
	case c.showsDead():
	case count != nil:
		c.question("If the program before gave a message up once %s reached %s, its row looks pending, and tailbox delivers it. Delete such rows, or mark them as delivered.", count.Name, limit)
	case failed != nil:
		c.question("If the program before gave a message up once it failed, its row has %s and looks pending, and tailbox delivers it. Delete such rows, or mark them as delivered.", failed.Name)
	}
}

// showsDead reports whether a column of the table shows what was given up.
func (c *chooser) showsDead() bool {
	return slices.ContainsFunc(c.Set, func(s Setting) bool { return s.Key == "dead" })
}

// flags takes a column of two values for the status: no is pending, yes is delivered.
func (c *chooser) flags(flag *report.Column, no, yes string) {
	c.used[flag.Name] = true
	c.Unused = except(c.Unused, flag.Name)
	c.Columns = slices.DeleteFunc(c.Columns, func(s Setting) bool { return s.Key == "status" })
	c.Columns = append(c.Columns, Setting{"status", quoted(flag.Name), describe("status", flag)})
	dead, why := no, "another column tells"
	if !c.gaveUp() {
		why = "it has no third value"
		if no == "0" {
			dead, why = "2", "a value of its own"
		}
	}
	c.Words = []Setting{{"pending", no, ""}, {"delivered", yes, ""}, {"retrying", no, ""}, {"waiting", no, ""}, {"dead", dead, why}}
	c.rest("on_delivered", "mark", flag.Name+" is "+yes+" then")
	switch {
	case dead == "2":
		c.question("tailbox takes %s = 0 for pending and 1 for delivered, and writes 2 if a message is given up. Your programs must not take 2 for either.", flag.Name)
	case len(c.Set) == 0:
		c.question("The row of a message that tailbox gave up looks pending: %s stays %s. tailbox itself remembers it, and does not deliver it again.", flag.Name, no)
	}
	if !flag.NotNull {
		c.question("Rows whose %s is NULL count as pending.", flag.Name)
	}
}

// gaveUp finds the column that tells which messages were given up, and reports whether there is one.
func (c *chooser) gaveUp() bool {
	bit := func(f *report.Column) bool { return f.Class == report.Bool || isBit(f) }
	if flag := c.findWritable(strings.Fields("blocked dead failed error errored haserror abandoned blacklisted discarded poisoned isdead isfailed iserror isblocked aborted deliveryaborted isaborted deadlettered isdeadlettered"), []report.Class{report.Bool, report.Number, report.Text}, bit); flag != nil {
		yes, no := truths(flag)
		c.set("dead", flag, yes, "tells that a message was given up")
		c.question("Rows whose %s is %s do not count as pending, and tailbox sets it if it gives a message up. If it means something else, take it out of set, and see what becomes of such rows.", flag.Name, yes)
		c.setBack(flag, no)
		return true
	}
	died := c.findWritable(strings.Fields("abandonedat failedat deadat deadletteredat deadletterat dlqat diedat gaveupat givenupat poisonedat quarantinedat discardedat expiredat cancelledat canceledat deletedat"), []report.Class{report.Time, report.LocalTime}, func(d *report.Column) bool { return !d.NotNull })
	if died == nil {
		return false
	}
	c.set("dead", died, "now", "tells that a message was given up")
	c.question("Rows whose %s is set do not count as pending, and tailbox sets it if it gives a message up. If it means something else, take it out of set, and see what becomes of such rows.", died.Name)
	c.setBack(died, "null")
	return true
}

// setBack takes back what tells that a message was given up, if an operator replays it.
func (c *chooser) setBack(column *report.Column, value string) {
	for _, state := range []string{"retrying", "waiting", "delivered"} {
		c.set(state, column, value, "")
	}
}

// set has a column show a state.
func (c *chooser) set(state string, column *report.Column, value, why string) {
	c.used[column.Name] = true
	c.Unused = except(c.Unused, column.Name)
	name := quoted(column.Name)
	for i := range c.Set {
		if c.Set[i].Key == state {
			c.Set[i].Value = strings.TrimSuffix(c.Set[i].Value, "}") + ", " + name + ": " + value + "}"
			return
		}
	}
	c.Set = append(c.Set, Setting{state, "{" + name + ": " + value + "}", why})
}

// telltale is a column that is not used, and whose name sounds as if it told what is delivered; nil if there is none.
func (c *chooser) telltale() *report.Column {
	return c.unused(func(column *report.Column, name string) bool {
		return column.Generated && among(statusNames, column.Name) || column.Class != report.JSON && column.Class != report.UUID && slices.ContainsFunc([]string{"processed", "published", "sent", "dispatched", "delivered", "completed", "handled", "consumed", "enqueued", "pushed", "relayed", "emitted", "pending", "unsent", "unprocessed", "unpublished", "undelivered"},
			func(part string) bool {
				return plain(firstWord.FindString(column.Name)) == part || strings.HasPrefix(name, "is"+part) || strings.HasSuffix(name, part) || strings.HasSuffix(name, part+"at")
			})
	})
}

// firstWord finds what a name begins with, up to an underscore, a digit or the next capital. sentry_trace_id does not begin with sent.
var firstWord = regexp.MustCompile(`^(?:[A-Za-z][a-z]+|[A-Z]+|[a-z])`)

// perhaps puts ??? in the place of a column, which may be one of some names.
func (c *chooser) perhaps(key, names string) {
	unknown := Setting{key, `"` + Unknown + `"`, "perhaps " + names + ": see the questions"}
	if i := slices.IndexFunc(c.Columns, func(s Setting) bool { return s.Key == key }); i >= 0 {
		c.Columns[i] = unknown
		return
	}
	c.Columns = append(c.Columns, unknown)
}

const flagNames = "processed sent published dispatched delivered done completed acked handled consumed pushed relayed emitted isprocessed issent ispublished isdelivered isconsumed deliverycomplete deliverycompleted iscompleted iscomplete complete"

// isBit reports whether a column of numbers holds 0 and 1 alone. MySQL's booleans are such numbers.
func isBit(c *report.Column) bool {
	return len(c.Values) > 0 && !slices.ContainsFunc(c.Values, func(v report.Value) bool { return v.Text != "0" && v.Text != "1" }) || len(c.Sample) == 0 && (strings.Trim(c.Default, "'") == "0" || c.Type == "tinyint(1)")
}

func (c *chooser) rest(key, value, why string) { c.Rest = append(c.Rest, Setting{key, value, why}) }

// journal reports whether a table keeps its rows, by its name or because it numbers them.
func journal(t *report.Table) bool {
	name := plain(t.Name)
	return slices.ContainsFunc(t.Columns, func(c report.Column) bool {
		return among("globalposition globalindex sequencenumber", c.Name) && c.NotNull && !strings.Contains(name, "outbox")
	}) || strings.Contains(name, "event") && !strings.Contains(name, "outbox") || strings.Contains(name, "journal") || strings.Contains(name, "log")
}
