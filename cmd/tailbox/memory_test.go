package main

import "testing"

func TestHeapLimit(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ live, want int64 }{{0, 40 << 20}, {30 << 20, 40 << 20}, {300 << 20, 400 << 20}} {
		if got := heapLimit(40<<20, x.live); got != x.want {
			t.Errorf("limit with %d bytes alive: %d, want %d", x.live, got, x.want)
		}
	}
}

func TestGarbagePercent(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		bytes uint64
		want  int
	}{{0, 100}, {1<<20 - 1, 100}, {1 << 20, 400}, {16 << 20, 400}, {16<<20 + 1, 200}} {
		if got := garbagePercent(x.bytes); got != x.want {
			t.Errorf("with %d bytes allocated: %d, want %d", x.bytes, got, x.want)
		}
	}
}
