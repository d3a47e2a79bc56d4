package lane

import "hash/maphash"

// mostRecent is how many entries a recent keeps.
const mostRecent = 65536

// A recent is a map that keeps the entries added lately, each under a hash of its key. The zero value is ready.
type recent[K comparable, V any] struct {
	seed       maphash.Seed
	young, old map[uint64]V
	forgot     bool // there were entries that it does not hold any more
}

func (r *recent[K, V]) hash(key K) uint64 {
	if r.young == nil {
		r.seed, r.young = maphash.MakeSeed(), map[uint64]V{}
	}
	return maphash.Comparable(r.seed, key)
}

// add sets the entry of a key.
func (r *recent[K, V]) add(key K, value V) {
	h := r.hash(key)
	r.young[h] = value
	if len(r.young) >= mostRecent/2 {
		r.forgot = r.forgot || len(r.old) > 0
		r.young, r.old = map[uint64]V{}, r.young
	}
}

// get returns the entry of a key, and whether there is one.
func (r *recent[K, V]) get(key K) (V, bool) {
	h := r.hash(key)
	value, ok := r.young[h]
	if !ok {
		value, ok = r.old[h]
	}
	return value, ok
}
