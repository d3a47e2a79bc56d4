package debezium

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// sqlToken is a comment, a text, an identifier in double quotes or backticks, a word, or a sign that matters between names.
var sqlToken = lazyregexp.New(`--[^\n]*|(?s:/\*.*?\*/)|'(?:[^']|'')*'|"(?:[^"]|"")+"|` + "`[^`]+`" + `|[\p{L}_][\p{L}\p{N}_$]*|[^\s\p{L}_]`)

// writtenTo returns the tables that SQL inserts into or updates, each as its identifiers. A name somewhere else, such as that of a table that is
// only read, does not count, nor does one that is part of a word or of a text. A table that rows are only deleted from may be an outbox that is cleaned.
func writtenTo(sql string) [][]string {
	tokens := slices.DeleteFunc(sqlToken().FindAllString(sql, -1), func(t string) bool {
		return strings.HasPrefix(t, "--") || strings.HasPrefix(t, "/*")
	})
	is := func(i int, words ...string) bool {
		return i >= 0 && i < len(tokens) && slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(tokens[i], w) })
	}
	var tables [][]string
	for i := range tokens {
		if !is(i, "INTO", "UPDATE") {
			continue
		}
		next := i + 1
		if is(next, "ONLY") {
			next++
		}
		if table := nameOf(tokens[min(next, len(tokens)):]); len(table) > 0 {
			tables = append(tables, table)
		}
	}
	return tables
}

// nameOf is the name that tokens begin with: identifiers with dots between them.
func nameOf(tokens []string) []string {
	var name []string
	for i := 0; i < len(tokens); i += 2 {
		part, ok := identifier(tokens[i])
		if !ok {
			break
		}
		if name = append(name, part); i+1 == len(tokens) || tokens[i+1] != "." {
			break
		}
	}
	return name
}

// identifier is the name that a token stands for.
func identifier(token string) (name string, ok bool) {
	if strings.HasPrefix(token, "`") && len(token) > 2 {
		return token[1 : len(token)-1], true
	}
	if strings.HasPrefix(token, `"`) && len(token) > 2 {
		return strings.ReplaceAll(token[1:len(token)-1], `""`, `"`), true
	}
	return token, sqlWord().MatchString(token)
}

var sqlWord = lazyregexp.New(`^[\p{L}_]`)

// heartbeatWrites reports whether the heartbeat's query writes to a table of table.include.list. A name without a schema counts as that of
// the table, because the search path is not known; case does not count, as it does not for Debezium's lists.
func heartbeatWrites(query, table string) bool {
	want := strings.Split(table, ".")
	return slices.ContainsFunc(writtenTo(query), func(found []string) bool {
		n := min(len(found), len(want))
		return slices.EqualFunc(found[len(found)-n:], want[len(want)-n:], strings.EqualFold)
	})
}

// beat is a word in the name of a table that is there for heartbeats.
var beat = lazyregexp.New(`(?i)heart_?beat|(?:^|_)(?:beat|ping|alive|pulse|hb)s?(?:_|$)`)
