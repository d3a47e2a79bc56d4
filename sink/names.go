package sink

import "sync"

// A Names gives destinations their names where messages choose them and there may be any number: the first ones have
// names of their own, so that each can be paused by itself; those beyond the limit share one, so that what the relay
// keeps of them is bounded. The zero value is not ready: use NewNames. Safe for concurrent use.
type Names struct {
	limit  int
	others string

	mu    sync.Mutex
	known map[string]struct{}
}

// NewNames makes a Names for at most limit names; those beyond are called others.
func NewNames(limit int, others string) *Names {
	return &Names{limit: limit, others: others, known: make(map[string]struct{})}
}

// Name returns name itself, or the name that all others share. It is the same for a name at any time.
func (n *Names) Name(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; ok {
		return name
	}
	if len(n.known) >= n.limit {
		return n.others
	}
	// The name may point into the memory of a batch, which ends with it.
	name = string([]byte(name))
	n.known[name] = struct{}{}
	return name
}
