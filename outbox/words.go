package outbox

import (
	"slices"
	"strconv"
)

// Words are the values of the status column, each as text. All of them may be whole numbers, for a column of such a type. The words
// for pending, retrying and waiting may be one.
type Words struct {
	// Pending waits for its first delivery, Delivered is done. Retrying was refused and is tried again, Waiting is queued
	// behind one that is. Dead was given up: an operator decides.
	Pending, Delivered, Retrying, Waiting, Dead string
}

// DefaultWords are the words of tables that do not bring their own.
func DefaultWords() Words {
	return Words{Pending: "pending", Delivered: "delivered", Retrying: "retrying", Waiting: "waiting", Dead: "dead"}
}

// WordNames are the keys of the configuration's `words`, in the order of List.
func WordNames() []string { return []string{"pending", "delivered", "retrying", "waiting", "dead"} }

// Word returns the place of a word by its configuration key, or nil for unknown keys.
func (w *Words) Word(key string) *string {
	words := map[string]*string{"pending": &w.Pending, "delivered": &w.Delivered, "retrying": &w.Retrying, "waiting": &w.Waiting, "dead": &w.Dead}
	return words[key]
}

// List are the words in the order of WordNames.
func (w Words) List() []string {
	return []string{w.Pending, w.Delivered, w.Retrying, w.Waiting, w.Dead}
}

// Number is a word as a whole number.
func Number(word string) (n int64, ok bool) {
	n, err := strconv.ParseInt(word, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == word
}

// Value is a word as it is written where a column has no type: a number or a boolean if all words are.
func (w Words) Value(word string) any {
	n, ok := Number(word)
	switch {
	case !slices.ContainsFunc(w.List(), func(s string) bool { return s != "true" && s != "false" }):
		return word == "true"
	case !ok || w.Numbers() < len(WordNames()):
		return word
	case n == int64(int32(n)):
		return int32(n)
	}
	return n
}

// Numbers counts the words that are whole numbers.
func (w Words) Numbers() int {
	count := 0
	for _, word := range w.List() {
		if _, ok := Number(word); ok {
			count++
		}
	}
	return count
}
