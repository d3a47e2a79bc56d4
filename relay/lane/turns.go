package lane

// turns is the order in which destinations with something to send have their turn. Destinations that work alternate with the others: thousands of
// destinations may fail at once, and one that works must not wait for a turn of each of them. The zero value is empty.
type turns struct {
	working, others []*Destination
	othersNext      bool
}

// Len is the number of destinations.
func (t *turns) Len() int { return len(t.working) + len(t.others) }

func (t *turns) add(q *Destination, works bool) {
	if works {
		t.working = append(t.working, q)
	} else {
		t.others = append(t.others, q)
	}
}

// Next takes the destination whose turn it is out of the order. There must be one.
func (t *turns) Next() *Destination {
	from := &t.working
	if len(t.working) == 0 || t.othersNext && len(t.others) > 0 {
		from = &t.others
	}
	t.othersNext = from == &t.working
	q := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	q.Listed = false
	return q
}
