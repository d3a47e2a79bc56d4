package relay

import "container/heap"

// heapOf hands over items, the first by their own order first.
type heapOf[T interface{ Before(other T) bool }] struct{ items heapItems[T] }

type heapItems[T interface{ Before(other T) bool }] []T

func (h heapItems[T]) Len() int           { return len(h) }
func (h heapItems[T]) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h heapItems[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heapItems[T]) Push(x any)        { *h = append(*h, x.(T)) }
func (h *heapItems[T]) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (h *heapOf[T]) len() int { return len(h.items) }

func (h *heapOf[T]) push(x T) { heap.Push(&h.items, x) }

func (h *heapOf[T]) pop() T { return heap.Pop(&h.items).(T) }
