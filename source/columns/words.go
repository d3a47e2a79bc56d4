package columns

import (
	"fmt"
	"slices"

	"github.com/tailbox/tailbox/outbox"
)

// Words are those of the table, or the usual ones.
func Words(t *outbox.Table) outbox.Words {
	if t.Words == (outbox.Words{}) {
		return outbox.DefaultWords()
	}
	return t.Words
}

// A StatusWord is a value that a status column has to hold. Key is its key under words in the configuration.
type StatusWord struct{ Key, Word string }

// StatusWords lists the values that the status column of a table has to hold, each once.
func StatusWords(t *outbox.Table) (list []StatusWord) {
	keys := outbox.WordNames()
	for i, word := range append(Words(t).List(), t.AlsoPending...) {
		key := keys[0]
		if i < len(keys) {
			key = keys[i]
		}
		if !slices.ContainsFunc(list, func(w StatusWord) bool { return w.Word == word }) {
			list = append(list, StatusWord{key, word})
		}
	}
	return list
}

// Fault says what a column type does instead of holding the word, such as "has no value x".
func (w *StatusWord) Fault(t *outbox.Table, columnType, does string) string {
	return fmt.Sprintf("status column %s is of type %s, which %s for %s messages: set words.%s under the table in source.tables to a value of that type",
		t.Columns.Status, columnType, does, w.Key, w.Key)
}

// written are the keys of the columns that only the relay writes.
func written() []string {
	return []string{"status", "attempts", "last_attempt_at", "next_attempt_at", "last_error", "delivered_at", "seq", "failures", "updated_at"}
}

// Unfound returns an error, a *Missing, if the configuration names a column for the relay to write that the table has not. A column that
// only the shape names may be missing. names are the table's columns; same tells whether two names are of one column.
func Unfound(t *outbox.Table, names []string, same func(a, b string) bool) error {
	shape, known := outbox.ShapeNamed(t.Shape)
	e := &Missing{Table: t.String(), among: names}
	for _, key := range written() {
		name := *t.Columns.Field(key)
		there := slices.ContainsFunc(names, func(other string) bool { return same(other, name) })
		if name != "" && !there && (!known || name != *shape.Columns.Field(key)) {
			e.Names = append(e.Names, name)
		}
	}
	if e.Names == nil {
		return nil
	}
	return e
}

// DropMissing forgets the columns of the shape that a table has not, of those that only the relay writes: it does without them.
func DropMissing(t *outbox.Table, has func(name string) bool) {
	for _, key := range append(written(), "created_at") {
		if name := t.Columns.Field(key); !has(*name) {
			*name = ""
		}
	}
}
