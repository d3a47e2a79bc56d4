package catalog

import "github.com/tailbox/tailbox/source/mysql/server"

// An index can be hidden from the optimizer (INVISIBLE in MySQL, IGNORED in MariaDB). A statement that names such an index fails, so
// it counts as none.

// HiddenIndex is the condition by which a row s of information_schema.statistics is of a hidden index.
func HiddenIndex(s server.Version) string {
	if s.MariaDB {
		return "s.ignored = 'YES'"
	}
	return "s.is_visible = 'NO'"
}

// ShowIndex is the statement that takes an index out of hiding. Table and index are quoted.
func ShowIndex(s server.Version, table, index string) string {
	if s.MariaDB {
		return "ALTER TABLE " + table + " ALTER INDEX " + index + " NOT IGNORED"
	}
	return "ALTER TABLE " + table + " ALTER INDEX " + index + " VISIBLE"
}
