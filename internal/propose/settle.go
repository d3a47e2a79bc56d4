package propose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store/report"
)

// settle chooses what becomes of a row once its message is delivered.
func (c *chooser) settle() {
	status, at := c.by["status"], c.by["delivered_at"]
	flag := c.find(strings.Fields(flagNames), []report.Class{report.Bool}, nil)
	number := c.find(strings.Fields(flagNames), []report.Class{report.Number, report.Bool}, func(f *report.Column) bool { return isBit(f) && (f.Class == report.Number || c.t.Quote == "`") })
	telltale, mark := c.telltale(), c.unusedMark()
	switch {
	case status != nil:
		c.words(status)
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
		c.rest("on_delivered", "mark", at.Name+" is set once the message is delivered")
		c.question("A row whose %s is NULL counts as pending, and tailbox sets it to the time of the delivery. If the program before set it earlier, such as when it took the row, write delivered_at: null, and on_delivered: delete or keep.", at.Name)
		if flag != nil {
			c.set("delivered", flag, "true", "as the program before did")
		}
		c.gaveUp()
		c.askLimit()
		c.askFlags()
	case telltale != nil && !isMarkTime(telltale):
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
			c.question("The table has rows, and nothing tells which of them were delivered. Delete those that were. Then write start: pending under source, so that tailbox delivers and deletes the others. It does so with every row: move those that are not for tailbox.")
		}
		return
	}
	if at == nil && c.t.Rows > 0 {
		unless := ""
		if mark != nil {
			unless = "unless you name such a column, "
		}
		c.question("The table has rows, and %snothing tells tailbox which of them were delivered. Let the program before deliver all of them. Then, if on_delivered is keep, write start: now under source. If it is delete, delete what was delivered, and write start: pending.", unless)
	}
}

// unwritten takes away the columns that show attempts: without a status, tailbox deletes a row as soon as its deliveries are parked.
func (c *chooser) unwritten() {
	c.Columns = slices.DeleteFunc(c.Columns, func(s Setting) bool {
		written := s.Value != "null" && slices.Contains([]string{"attempts", "failures", "last_attempt_at", "next_attempt_at", "last_error", "updated_at"}, s.Key)
		if written {
			c.Unused = append(c.Unused, c.by[s.Key].Name)
		}
		return written
	})
}

// unusedMark is a column that is not used and can tell two kinds of rows apart: a flag, or a time that is set later. It is nil if there is none.
func (c *chooser) unusedMark() *report.Column {
	return c.unused(func(column *report.Column, name string) bool {
		return isFlag(column) || tellsLater(column, name)
	})
}

// tellsLater reports whether a column, whose plain name is name, is a time that is set once something has become of the row.
func tellsLater(c *report.Column, name string) bool {
	return isMarkTime(c) && !strings.HasSuffix(name, "by") &&
		!hasPart(name, "lock", "expir", "until", "deadline", "start", "updated", "modified")
}

// isMarkTime reports whether a column is a time that may be set later.
func isMarkTime(c *report.Column) bool {
	return (c.Class == report.Time || c.Class == report.LocalTime) && mayBeEmpty(c)
}

// isFlag reports whether a column is a boolean, or what MySQL has in its place.
func isFlag(c *report.Column) bool {
	return c.Class == report.Bool || c.Class == report.Number && isBit(c) && (strings.HasPrefix(c.Type, "tinyint") || strings.HasPrefix(c.Type, "bit"))
}

// askFlags asks about flags that nothing uses, beside a column that tells what is delivered, and about a time that may tell what was given up.
func (c *chooser) askFlags() {
	if mark := c.unused(tellsLater); mark != nil && c.by["status"] == nil {
		c.question("tailbox does not look at %s, so rows count as pending also if it is set. If it is set once a message is given up, write set: {dead: {%s: now}}.", mark.Name, quoted(mark.Name))
	}
	for i := range c.t.Columns {
		if column := &c.t.Columns[i]; !c.used[column.Name] && isFlag(column) {
			what := "Then let the program before finish or delete such rows."
			if !c.showsDead() && !slices.ContainsFunc(c.Columns, func(s Setting) bool { return s.Key == "status" }) {
				what = "Then write that value under set.dead."
			}
			c.question("tailbox does not look at %s, so rows count as pending whatever it says. Does a value of it mean that a row must not be delivered? %s", column.Name, what)
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

// askLimit asks about rows that a program gave up because of their number of attempts, if no other column tells.
func (c *chooser) askLimit() {
	count := c.by["attempts"]
	if count == nil {
		count = c.by["failures"]
	}
	if count != nil && c.by["max_attempts"] == nil && !c.showsDead() {
		c.question("If the program before gave a message up once %s reached a limit, its row looks pending, and tailbox delivers it. Delete such rows, or mark them as delivered.", count.Name)
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
	if flag := c.find(strings.Fields("blocked dead failed error errored haserror abandoned blacklisted discarded poisoned isdead isfailed iserror isblocked aborted deliveryaborted isaborted deadlettered isdeadlettered"), []report.Class{report.Bool, report.Number, report.Text}, bit); flag != nil {
		yes, no := "true", "false"
		switch flag.Class {
		case report.Number:
			yes, no = "1", "0"
		case report.Text:
			yes, no = "'1'", "'0'"
		}
		c.set("dead", flag, yes, "tells that a message was given up")
		c.question("Rows whose %s is %s do not count as pending, and tailbox sets it if it gives a message up. If it means something else, take it out of set, and see what becomes of such rows.", flag.Name, yes)
		c.setBack(flag, no)
		return true
	}
	died := c.find(strings.Fields("abandonedat failedat deadat deadletteredat deadletterat dlqat diedat gaveupat givenupat poisonedat quarantinedat discardedat expiredat cancelledat canceledat deletedat"), []report.Class{report.Time, report.LocalTime}, func(d *report.Column) bool { return !d.NotNull })
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
		return column.Class != report.JSON && column.Class != report.UUID && slices.ContainsFunc([]string{"processed", "published", "sent", "dispatched", "delivered", "completed", "handled", "consumed", "enqueued", "pushed", "relayed", "emitted"},
			func(part string) bool {
				return plain(firstWord.FindString(column.Name)) == part || strings.HasPrefix(name, "is"+part) || strings.HasSuffix(name, part) || strings.HasSuffix(name, part+"at")
			})
	})
}

// firstWord finds what a name begins with, up to an underscore, a digit or the next capital. sentry_trace_id does not begin with sent.
var firstWord = regexp.MustCompile(`^(?:[A-Za-z][a-z]+|[A-Z]+|[a-z])`)

// unknown puts ??? in the place of a column.
func (c *chooser) unknown(key, why string) {
	for i := range c.Columns {
		if c.Columns[i].Key == key {
			c.Columns[i].Value, c.Columns[i].Why = `"`+Unknown+`"`, why
		}
	}
}

const flagNames = "processed sent published dispatched delivered done completed acked handled consumed pushed relayed emitted isprocessed issent ispublished isdelivered isconsumed deliverycomplete deliverycompleted iscompleted iscomplete complete"

// isBit reports whether a column of numbers holds 0 and 1 alone. MySQL's booleans are such numbers.
func isBit(c *report.Column) bool {
	return len(c.Values) > 0 && !slices.ContainsFunc(c.Values, func(v report.Value) bool { return v.Text != "0" && v.Text != "1" }) || len(c.Sample) == 0 && strings.Trim(c.Default, "'") == "0"
}

func (c *chooser) rest(key, value, why string) { c.Rest = append(c.Rest, Setting{key, value, why}) }

// journal reports whether a table keeps its rows, by its name or because it numbers them.
func journal(t *report.Table) bool {
	name := plain(t.Name)
	return slices.ContainsFunc(t.Columns, func(c report.Column) bool {
		return among("globalposition globalindex sequencenumber", c.Name) && c.NotNull && !strings.Contains(name, "outbox")
	}) || strings.Contains(name, "event") && !strings.Contains(name, "outbox") || strings.Contains(name, "journal") || strings.Contains(name, "log")
}

// literal finds the texts in the constraint of a column.
var literal = regexp.MustCompile(`'((?:[^']|'')*)'`)

// known lists the words that a column may have, and whether it can have no other.
func known(c *report.Column) (words []string, closed bool) {
	add := func(word string) {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	for _, label := range c.Labels {
		add(label)
	}
	closed = len(c.Labels) > 0
	for _, check := range c.Checks {
		for _, m := range literal.FindAllStringSubmatch(check, -1) {
			add(strings.ReplaceAll(m[1], "''", "'"))
			closed = true
		}
	}
	add(defaultOf(c))
	for _, v := range c.Values {
		add(v.Text)
	}
	return words, closed
}

// defaultOf is the word that a row begins with; "" if it is none.
func defaultOf(c *report.Column) string {
	if m := literal.FindStringSubmatch(c.Default); m != nil {
		return m[1]
	}
	if number.MatchString(c.Default) {
		return c.Default
	}
	if c.Class == report.Text && plainWord.MatchString(c.Default) { // MySQL shows a text without quotes
		return c.Default
	}
	return ""
}

var (
	number    = regexp.MustCompile(`^-?[0-9]+$`)
	plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z_ -]*$`)
)

// words finds the words of a status column.
func (c *chooser) words(status *report.Column) {
	all, closed := known(status)
	of := func(words string) (found []string) {
		for _, word := range all {
			if among(words, word) {
				found = append(found, word)
			}
		}
		return found
	}
	first := defaultOf(status)
	slices.SortStableFunc(all, func(a, b string) int { return rank(wordsDead, a) - rank(wordsDead, b) })
	pending, flying, delivered, dead, retrying := of(wordsPending), of(wordsInFlight), of(wordsDelivered), of(wordsDead), of(wordsRetrying)
	if i := slices.Index(pending, first); i > 0 {
		pending[0], pending[i] = pending[i], pending[0]
	}
	if len(pending) == 0 && first != "" && !among(wordsDelivered+" "+wordsDead, first) {
		pending = []string{first}
	}
	switch {
	case status.Class == report.Number || len(pending) == 0:
		c.open(status, untold(status, all), all)
		return
	case len(delivered) > 1:
		c.open(status, "several words may mean that a message is delivered", all)
		return
	}
	if len(delivered) == 0 && (unheard(all, first) || c.by["delivered_at"] != nil) {
		c.open(status, "no word is known to mean that a message is delivered", all)
		return
	}
	if len(delivered) == 0 {
		c.rest("on_delivered", "delete", status.Name+" has no word for delivered")
		c.question("%s has no word for a message that is delivered, so tailbox deletes the row then. If rows have to stay, write the word as words.delivered and on_delivered: mark. If the program moves them to another table, docs/feedback.md has the way.", status.Name)
		delivered = []string{like(pending[0], "delivered")}
		if closed {
			c.open(status, "it has no word for delivered", all)
			return
		}
	} else {
		c.rest("on_delivered", "mark", "the status says "+delivered[0]+" then")
	}
	if len(dead) == 0 {
		if closed {
			c.open(status, "it has no word for a message that is given up", all)
			return
		}
		dead = []string{like(pending[0], "dead")}
		c.question("No word of %s means that a message is given up. tailbox writes %q, which your programs do not know yet. If they refuse it, docs/tables.md, \"Words\", has other ways.", status.Name, dead[0])
	}
	if len(dead) > 1 && among("failed error errored", dead[len(dead)-1]) { // another word says that it was given up, so that this one waits for the next try
		retrying = append(retrying, dead[len(dead)-1])
	}
	waits := pending[0]
	flying = except(flying, waits)
	c.tellWords(status, waits, delivered[0], dead[0])
	again := waits
	if len(retrying) > 0 {
		again = retrying[0]
	}
	list := append(append(pending[:1:1], flying...), except(retrying, waits)...)
	value := list[0]
	if len(list) > 1 {
		value = flow(list)
		c.question("Rows with the status %s are in flight at the program before, or wait for its next attempt. tailbox takes them for pending: stop that program first.", strings.Join(list[1:], ", "))
	} else {
		value = yamlText(value)
	}
	why := "what rows begin with"
	if first != list[0] {
		why = "the word that means it"
	}
	c.Words = []Setting{{"pending", value, why}, {"delivered", yamlText(delivered[0]), ""}, {"retrying", yamlText(again), ""}, {"waiting", yamlText(waits), ""}, {"dead", yamlText(dead[0]), ""}}
	rest := slices.DeleteFunc(slices.Clone(all), func(word string) bool {
		return slices.Contains(list, word) || word == delivered[0] || word == again || word == dead[0]
	})
	if len(rest) > 0 {
		c.question("What do the words %s of %s mean? tailbox leaves rows alone that have such a word before it starts. If they have to be delivered, add the word to words.pending. tailbox delivers each row that is inserted later, whatever its word: docs/tables.md, \"Rows that behave differently\".", strings.Join(rest, ", "), status.Name)
	}
}

// tellWords tells which words of a status tailbox reads and writes.
func (c *chooser) tellWords(status *report.Column, pending, delivered, dead string) {
	once := "writes " + delivered
	if slices.ContainsFunc(c.Rest, func(s Setting) bool { return s.Value == "delete" }) {
		once = "deletes the row"
	}
	c.question("tailbox takes %s of %s for pending, and %s once a message is delivered. It writes %s if it gives a message up. Rows that say %s now stay as they are, and tailbox does not deliver them. "+
		"If %s is not the state of the message, write status: null and choose on_delivered.", pending, status.Name, once, dead, dead, status.Name)
}

// untold is why no word is taken for pending.
func untold(status *report.Column, words []string) string {
	if status.Class == report.Number || len(words) == 0 {
		return "its values do not tell what they mean"
	}
	return "no row says a word that is known to mean pending"
}

// open leaves the words of a status to somebody who knows them.
func (c *chooser) open(status *report.Column, why string, words []string) {
	c.unknown("status", "perhaps "+status.Name+": see the questions")
	c.Rest = nil
	have := "It is empty in the rows that were looked at."
	if len(words) > 0 {
		have = "It has " + strings.Join(words, ", ") + "."
	}
	orSet := ""
	if c.by["delivered_at"] != nil {
		orSet = fmt.Sprintf(" If no word means dead, you can write status: null and set: {delivered: {%s: WORD}}. tailbox then takes rows without %s for pending: do so only if a failed attempt does not set it.", quoted(status.Name), c.by["delivered_at"].Name)
	}
	c.question("Which words of %s mean pending, retrying, waiting, delivered and dead? tailbox cannot tell, because %s. %s Write status: %s and all five under words, or status: null if tailbox must not write it.%s",
		status.Name, why, have, quoted(status.Name), orSet)
}

// unheard reports whether there is a word, other than the first one of a row, of which nobody knows what it means.
func unheard(words []string, first string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return word != first && !among(strings.Join([]string{wordsPending, wordsDelivered, wordsDead, wordsRetrying, wordsInFlight}, " "), word)
	})
}

// rank is the place of a word among words; behind them all if it is none of them.
func rank(words, word string) int {
	list := strings.Fields(words)
	if i := slices.Index(list, plain(word)); i >= 0 {
		return i
	}
	return len(list)
}

func except(words []string, word string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(other string) bool { return other == word })
}

// like writes a word as another one is written.
func like(model, word string) string {
	switch {
	case model == strings.ToUpper(model):
		return strings.ToUpper(word)
	case model[:1] == strings.ToUpper(model[:1]):
		return strings.ToUpper(word[:1]) + word[1:]
	}
	return word
}
