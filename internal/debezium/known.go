package debezium

import (
	_ "embed"
	"slices"
	"strings"
)

// optionsOfDebezium are the names of all options that Debezium 3.6.1 and Kafka Connect 4.0 define for a source, those of a Kafka producer (producer.)
// and those of converters (converter.), sorted, one a line. A test compares them with the code of both.
//
//go:embed options.txt
var optionsOfDebezium string

// unheardOf is why an option has no effect that Debezium does not know.
const unheardOf = "Debezium does not know it either: look for a typing error"

// heard reports whether Debezium knows an option of the source. What it does not know has no effect there, and so none here. It passes the options
// of the connection on to the database's driver, so those may all have an effect.
func heard(option string) bool {
	for _, family := range []string{"database.", "driver.", "column.", "converters", "post.processors", "transforms", "predicates"} {
		if strings.HasPrefix(option, family) {
			return true
		}
	}
	return listed(option)
}

// listed reports whether an option is in the list.
func listed(option string) bool {
	_, found := slices.BinarySearch(strings.Fields(optionsOfDebezium), option)
	return found
}
