package report

// A Poll is how far a table that is polled has come, for the command line.
type Poll struct {
	// Sequence fills the sequence column; Last is the last number that it gave, or the highest that can be seen.
	Sequence string `json:"sequence"`
	Last     uint64 `json:"last"`
	// Open are transactions that may hold numbers which cannot be seen yet, the oldest first: rows above wait for them.
	Open []string `json:"open"`
}
