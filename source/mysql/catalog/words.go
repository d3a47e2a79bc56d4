package catalog

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/columns"
)

// WordFaults tells which words the status column cannot hold: they are no values of its type, or the server would change them.
// dataType is such as varchar, declared such as varchar(20), length in characters; 0 = none.
func WordFaults(t *outbox.Table, dataType, declared string, length int) []string {
	var faults []string
	for _, w := range columns.StatusWords(t) {
		if !holdsWord(w.Word, strings.ToLower(dataType), declared, length) {
			faults = append(faults, w.Fault(t, declared, fmt.Sprintf("has no value %q", w.Word)))
		}
	}
	return faults
}

func holdsWord(word, dataType, declared string, length int) bool {
	switch dataType {
	case "enum":
		return slices.Contains(parseLabels(declared), word)
	case "char", "varchar":
		return utf8.RuneCountInString(word) <= length
	case "binary", "varbinary":
		return len(word) <= length
	case "tinytext", "text", "mediumtext", "longtext":
		return true
	case "tinyint", "smallint", "mediumint", "int", "bigint", "decimal":
		n, ok := outbox.Number(word)
		low, high := IntegerBounds(dataType, strings.Contains(strings.ToLower(declared), "unsigned"))
		return ok && n >= low && n <= high
	}
	return false
}

// IntegerBounds are the least and greatest value of a type, as far as a word can reach.
func IntegerBounds(dataType string, unsigned bool) (low, high int64) {
	bits := map[string]uint{"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32}[dataType]
	switch {
	case bits == 0 && unsigned:
		return 0, 1<<63 - 1
	case bits == 0:
		return -1 << 63, 1<<63 - 1
	case unsigned:
		return 0, 1<<bits - 1
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}
