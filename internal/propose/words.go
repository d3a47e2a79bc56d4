package propose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/source/store/report"
)

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
		c.newDead(status, dead[0])
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

// newDead tells that no word of a status means given up, and asks how else the program before showed it.
func (c *chooser) newDead(status *report.Column, dead string) {
	c.question("No word of %s means that a message is given up. tailbox writes %q, which your programs do not know yet. If they refuse it, docs/tables.md, \"Words\", has other ways.", status.Name, dead)
	c.askLimit()
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
	c.perhaps("status", status.Name)
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

// askChecks asks about constraints that tie a status to columns that tailbox has no key for, or that it sets with one word alone.
func (c *chooser) askChecks(status *report.Column) {
	at := c.by["delivered_at"]
	for _, check := range c.t.Checks {
		other := c.tied(check, status)
		if other == nil {
			continue
		}
		if other == at {
			c.Columns = slices.DeleteFunc(c.Columns, func(s Setting) bool { return s.Key == "delivered_at" })
			c.Columns = append(c.Columns, Setting{"delivered_at", "null", "see set"})
		}
		if len(c.Set) == 0 && !slices.ContainsFunc(c.Rest, func(s Setting) bool { return s.Key == "set" }) {
			c.rest("set", `"`+Unknown+`"`, "see the questions")
		}
		name, value := quoted(other.Name), "VALUE"
		if isTime(other) {
			value = "now"
		}
		c.question("The constraint %s ties %s to %s, and the database refuses what does not fit it. Under set, write what %s has to be in each state, such as set: {delivered: {%s: %s}, dead: {%s: %s}, retrying: {%s: null}, waiting: {%s: null}}.",
			check, status.Name, other.Name, other.Name, name, value, name, value, name, name)
	}
}

// tied is a column that a constraint names beside a status; nil if there is none.
func (c *chooser) tied(check string, status *report.Column) *report.Column {
	if !names(check, status) {
		return nil
	}
	for i := range c.t.Columns {
		if other := &c.t.Columns[i]; (!c.used[other.Name] || other == c.by["delivered_at"]) && names(check, other) {
			return other
		}
	}
	return nil
}

// names reports whether a constraint names a column.
func names(check string, c *report.Column) bool {
	return regexp.MustCompile(`(?:^|[^\w'])"?` + regexp.QuoteMeta(c.Name) + `"?(?:[^\w']|$)`).MatchString(check)
}
