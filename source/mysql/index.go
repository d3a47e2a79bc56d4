package mysql

// An index can be hidden from the optimizer (INVISIBLE in MySQL, IGNORED in MariaDB). A statement that names such an index fails, so
// it counts as none.

// hiddenIndex is the condition by which a row s of information_schema.statistics is of a hidden index.
func hiddenIndex(s server) string {
	if s.mariadb {
		return "s.ignored = 'YES'"
	}
	return "s.is_visible = 'NO'"
}

// showIndex is the statement that takes an index out of hiding. Table and index are quoted.
func showIndex(s server, table, index string) string {
	if s.mariadb {
		return "ALTER TABLE " + table + " ALTER INDEX " + index + " NOT IGNORED"
	}
	return "ALTER TABLE " + table + " ALTER INDEX " + index + " VISIBLE"
}
