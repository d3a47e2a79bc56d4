package sqltext

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// wordEnd is the end of a word that is none of the name of a column, such as index$2.
const wordEnd = "(?:[\\s=(`'\"]|$)"

var (
	alterTable = regexp.MustCompile(`(?is)^alter\s+(?:online\s+)?(?:ignore\s+)?table\s+(?:if\s+exists\s+)?` + tablePattern +
		`(?:\s+(?:wait\s+\d+|nowait)\b)?(.*)$`)
	// What becomes another table, or takes the name of one.
	renamedTo     = regexp.MustCompile(`(?is)\b(?:rename\s+(?:(?:to|as)\b|=)?|convert\s+table\b)\s*` + tablePattern)
	movedTables   = regexp.MustCompile(`(?is)^(?:drop\s+tables?|rename\s+tables?)\s+(.*)$`)
	replacedTable = regexp.MustCompile(`(?is)^create\s+or\s+replace\s+table\s+(?:if\s+not\s+exists\s+)?` + tablePattern)
	droppedBase   = regexp.MustCompile(`(?is)^drop\s+(?:database|schema)\s+(?:if\s+exists\s+)?` + namePattern)
	tableNamed    = regexp.MustCompile(tablePattern)
	// What ALTER TABLE does to partitions it does alone, to a list of them.
	ofPartitions = regexp.MustCompile(`(?is)^\s*(?:(?:add|drop|truncate|coalesce|reorganize|analyze|check|optimize|rebuild|repair|exchange|convert)\s+partition` +
		`|convert\s+table)\b`)
	keepsColumns = regexp.MustCompile(`(?is)^(?:$|(?:add\s+(?:unique|fulltext|spatial|index|key|constraint|foreign|primary|check)` +
		`|drop\s+(?:index|key|foreign|primary|constraint|check)` +
		`|(?:discard|import)\s+tablespace|rename\s+(?:index|key)|alter\s+(?:index|check|constraint)` +
		`|(?:default\s+)?(?:character\s+set|charset|collate|encryption)|max_rows|min_rows|avg_row_length|tablespace|checksum` +
		`|comment|engine|auto_increment|algorithm|lock|row_format|key_block_size|force|stats_\w+|enable|disable` +
		`|partition\s+by|remove\s+partitioning)` + wordEnd +
		`|alter\s+(?:column\s+)?(?:if\s+exists\s+)?` + namePattern + `\s*(?:(?:set|drop)\s+default|set\s+(?:in)?visible)` + wordEnd + `)`)
)

// ChangesColumns reports whether a table may have other columns after a bare statement than before it. Database is the one in which the
// statement was run. CREATE TABLE does not count: if the table had rows before, it was dropped or renamed first.
func ChangesColumns(bare []byte, database, schema, table string) bool {
	bare = bytes.TrimSpace(WithoutSettings(bare))
	is := func(name [][]byte) bool {
		in, called := database, name[1]
		if len(name[2]) > 0 {
			in, called = Unquote(name[1]), name[2]
		}
		return strings.EqualFold(schema, in) && strings.EqualFold(table, Unquote(called))
	}
	if m := droppedBase.FindSubmatch(bare); m != nil {
		return strings.EqualFold(schema, Unquote(m[1]))
	}
	if m := replacedTable.FindSubmatch(bare); m != nil {
		return is(m)
	}
	var names [][][]byte
	if m := movedTables.FindSubmatch(bare); m != nil {
		names = tableNamed.FindAllSubmatch(m[1], -1)
	} else if m := alterTable.FindSubmatch(bare); m != nil {
		if is(m) {
			return changesColumns(m[3])
		}
		names = renamedTo.FindAllSubmatch(m[3], -1)
	}
	return slices.ContainsFunc(names, is)
}

// changesColumns reports whether the clauses of an ALTER TABLE may change columns. A clause that is not known to keep them may.
func changesColumns(clauses []byte) bool {
	if ofPartitions.Match(clauses) {
		return false
	}
	depth, start := 0, 0
	changes := func(clause []byte) bool { return !keepsColumns.Match(bytes.TrimSpace(clause)) }
	for at := 0; at < len(clauses); at++ {
		switch c := clauses[at]; {
		case c == '`' || c == '"' || c == '\'':
			at += quotedSize(clauses[at:], c != '`') - 1
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			if changes(clauses[start:at]) {
				return true
			}
			start = at + 1
		}
	}
	return changes(clauses[start:])
}
