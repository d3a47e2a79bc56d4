package operate

import "github.com/tailbox/tailbox/source"

// A Gap is a checkpoint behind which the log cannot be read on, as it is seen now.
type Gap struct {
	// From is the checkpoint. A request to accept the gap names it, so that it counts for no other.
	From source.Resume
	// Why is the reason, for the operator.
	Why string
	// Unswept: the log can be read on; only the sweep that comes before has not ended.
	Unswept bool
	// Unjudged names what the next start cannot sweep: nothing tells what of it was delivered.
	Unjudged []string
}
