// Package check holds what `tailbox check` says, whatever the database is: a finding with its level and its fix, and the findings
// that are the same in all databases.
package check

// A Level says how bad a Finding is.
type Level string

// Levels of findings.
const (
	Problem Level = "problem" // the relay cannot run, or would lose or hold up something
	Warning Level = "warning" // it runs, but not as well as it could
	Info    Level = "info"    // good to know
)

// A Finding is something that `tailbox check` found.
type Finding struct {
	Level Level `json:"level"`
	// What is a sentence, Fix the statement, setting or command that fixes it; "" if nothing is to be done.
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// A Reason is what keeps a server or a table from being read, or makes its rows come late, and what fixes it.
type Reason struct{ What, Fix string }
