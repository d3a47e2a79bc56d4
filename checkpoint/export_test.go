package checkpoint

// Kept is the number of messages that are kept one by one.
func (t *Tracker) Kept() int {
	n := 0
	for i := range t.chunks {
		if t.chunks[i].slots != nil {
			n += chunkSize
		}
	}
	return n
}
