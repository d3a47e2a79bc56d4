package main

import (
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// kept tells the relay which tables keep their delivered rows as they are. Messages name their table with its schema; one
// that is configured without is found by the search path, so that any schema will do.
func kept(tables []outbox.Table) func(string) bool {
	var names, anywhere []string
	for _, t := range tables {
		switch {
		case t.OnDelivered != outbox.Keep:
		case t.Schema == "":
			anywhere = append(anywhere, "."+t.Name)
		default:
			names = append(names, t.String())
		}
	}
	return func(table string) bool {
		for _, name := range names {
			if table == name {
				return true
			}
		}
		for _, name := range anywhere {
			if strings.HasSuffix(table, name) {
				return true
			}
		}
		return false
	}
}
