package mysql

// A Level says how bad a Finding is.
type Level string

// Levels of findings.
const (
	Problem Level = "problem" // the relay cannot run, or would lose or hold up something
	Warning Level = "warning" // it runs, but not as well as it could
	Info    Level = "info"    // good to know
)

// A Finding is something that Check found.
type Finding struct {
	Level Level `json:"level"`
	// What is a sentence, Cure the SQL, setting or command that mends it; "" where nothing is to be done.
	What string `json:"what"`
	Cure string `json:"cure,omitempty"`
}
