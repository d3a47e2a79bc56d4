package mysql

import (
	"bytes"
	"regexp"
	"strings"
)

var (
	alterTable = regexp.MustCompile(`(?is)^alter\s+(?:online\s+)?(?:ignore\s+)?table\s+(?:if\s+exists\s+)?` + tablePattern +
		`(?:\s+(?:wait\s+\d+|nowait)\b)?(.*)$`)
	renamedTo   = regexp.MustCompile(`(?is)\brename\s+(?:(?:to|as)\b|=)?\s*` + tablePattern)
	movedTables = regexp.MustCompile(`(?is)^(?:drop\s+tables?|rename\s+tables?|create\s+or\s+replace\s+table)\s+(.*)$`)
	droppedBase = regexp.MustCompile(`(?is)^drop\s+(?:database|schema)\s+(?:if\s+exists\s+)?` + namePattern)
	tableNamed  = regexp.MustCompile(tablePattern)
	// What ALTER TABLE does to partitions it does alone, to a list of them.
	ofPartitions = regexp.MustCompile(`(?is)^\s*(?:add|drop|truncate|coalesce|reorganize|analyze|check|optimize|rebuild|repair|exchange)\s+partition\b`)
	keepsColumns = regexp.MustCompile(`(?is)^(?:$|add\s+(?:unique|fulltext|spatial|index|key|constraint|foreign|primary|check)\b` +
		`|drop\s+(?:index|key|foreign|primary|constraint|check)\b` +
		`|(?:discard|import)\s+tablespace\b|rename\s+(?:index|key)\b|alter\s+(?:index|check|constraint)\b` +
		`|(?:comment|engine|auto_increment|algorithm|lock|row_format|key_block_size|force|stats_\w+|enable|disable)\b` +
		`|partition\s+by\b|remove\s+partitioning\b)`)
)

// altered are those of the tables whose columns may be others before a bare statement than behind it. CREATE TABLE is none of
// those statements: a table that had rows before it was dropped or renamed first.
func altered(tables []*tableInfo, schema, bare []byte) (found []*tableInfo) {
	bare = bytes.TrimSpace(bare)
	is := func(t *tableInfo, name [][]byte) bool {
		in, table := string(schema), name[1]
		if len(name[2]) > 0 {
			in, table = unquoteName(name[1]), name[2]
		}
		return strings.EqualFold(t.Schema, in) && strings.EqualFold(t.Name, unquoteName(table))
	}
	alters := func(t *tableInfo) bool {
		if m := droppedBase.FindSubmatch(bare); m != nil {
			return strings.EqualFold(t.Schema, unquoteName(m[1]))
		}
		names := [][][]byte{}
		if m := movedTables.FindSubmatch(bare); m != nil {
			names = tableNamed.FindAllSubmatch(m[1], -1)
		} else if m := alterTable.FindSubmatch(bare); m != nil {
			if is(t, m) {
				return changesColumns(m[3])
			}
			names = renamedTo.FindAllSubmatch(m[3], -1)
		}
		for _, name := range names {
			if is(t, name) {
				return true
			}
		}
		return false
	}
	for _, t := range tables {
		if alters(t) {
			found = append(found, t)
		}
	}
	return found
}

// changesColumns tells whether what an ALTER TABLE does, in the clauses behind the table's name, may change columns. What is not
// known to leave them alone may.
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
