package lane

import "container/heap"

// A Heap is a priority queue, ordered by Before.
type Heap[T interface{ Before(other T) bool }] struct{ Items heapItems[T] }

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

// Len returns how many items there are.
func (h *Heap[T]) Len() int { return len(h.Items) }

// Push adds an item.
func (h *Heap[T]) Push(x T) { heap.Push(&h.Items, x) }

// Pop removes the first item.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.Items).(T) }
