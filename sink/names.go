package sink

import (
	"container/list"
	"strings"
	"sync"
)

const (
	// mostNames are remembered by a Names.
	mostNames = 1024
	// longestName that is remembered.
	longestName = 4 << 10
	// namesAway is how many names have to be asked for, since one was asked for last, before another one may take its place.
	namesAway = 4 * mostNames
)

// A Names gives destinations their names where messages choose them and there may be any number. Those in use have names
// of their own, so that each can fail by itself. Beyond 1,024, those that are asked for seldom share one, so that their
// messages share calls, and what is kept of them is bounded. A name that is not asked for any more loses its place to
// another one. The zero value is not ready: use NewNames. Safe for concurrent use.
type Names struct {
	others string

	mu    sync.Mutex
	asked uint64 // names in all
	known map[string]*list.Element
	order *list.List // of named, the one asked for last in front
}

// named is one remembered name, and the number of its last question.
type named struct {
	name string
	last uint64
}

// NewNames makes a Names. The names that share one are called others.
func NewNames(others string) *Names {
	return &Names{others: others, known: make(map[string]*list.Element), order: list.New()}
}

// Destination returns the destination of a name: its own, or the one that others share.
func (n *Names) Destination(name string) Destination {
	known := n.name(name)
	return Destination{Name: known, Shared: known == n.others}
}

// name returns name itself, or the name that others share.
func (n *Names) name(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if one := n.known[name]; one != nil {
		n.order.MoveToFront(one)
		known := one.Value.(*named)
		known.last = n.asked
		return known.name
	}
	if len(name) > longestName {
		return n.others
	}
	if oldest := n.order.Back(); n.order.Len() >= mostNames {
		out := oldest.Value.(*named)
		if n.asked-out.last < namesAway {
			return n.others
		}
		n.order.Remove(oldest)
		delete(n.known, out.name)
	}
	// The name may point into the memory of a batch, which ends with it.
	name = strings.Clone(name)
	n.known[name] = n.order.PushFront(&named{name, n.asked})
	return name
}
