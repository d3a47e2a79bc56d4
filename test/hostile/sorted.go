package hostile

import (
	"iter"
	"maps"
	"slices"
)

// sorted ranges over a map in the order of its keys, so that random numbers go to the same rows each time.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
