// Package sqltext writes SQL for Postgres: quoted names and literals, and types and operators that mean the same under any search path.
package sqltext

import (
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Ident quotes a name for SQL.
func Ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal quotes a text for SQL, for statements that take no parameters. standard_conforming_strings is on.
func Literal(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

// Table is the table's name for SQL; Schema "" leaves it to the search path.
func Table(t *outbox.Table) string {
	if t.Schema == "" {
		return Ident(t.Name)
	}
	return Ident(t.Schema) + "." + Ident(t.Name)
}

// Operators that mean the same under any path.
const (
	Equals = " OPERATOR(pg_catalog.=) "
	Above  = " OPERATOR(pg_catalog.>) "
)

// Type is a type as format_type names it in a session with a pinned path, with its schema also where that is pg_catalog. Names of several words and
// those with a schema cannot mean anything else.
func Type(name string) string {
	first, _, _ := strings.Cut(name, "(")
	switch strings.TrimSuffix(first, "[]") {
	case "bigint", "bit", "boolean", "character", "integer", "interval", "numeric", "real", "smallint", "time", "timestamp":
		return name
	}
	if strings.ContainsAny(first, ". ") {
		return name
	}
	return "pg_catalog." + name
}

// Literals are texts as a list of SQL.
func Literals(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = Literal(text)
	}
	return strings.Join(quoted, ", ")
}
