// Package sqlstore is what the stores in SQL databases share: the texts that stand in columns of tailbox_*, and the
// decisions that are the same whatever the SQL is. It is pure: it knows no driver, and makes no statement.
package sqlstore
