package outbox

import "slices"

// A SetValue is a value that a column of the application's own gets if a row comes into a state.
type SetValue struct {
	// State is one of WordNames, but for pending: tailbox never makes a row pending.
	State, Column string
	// Value is the text of the value, unless it is Null or the time of the change (Now).
	Value     string
	Null, Now bool
}

// SetStates are the states with which columns can be set.
func SetStates() []string { return []string{"delivered", "retrying", "waiting", "dead"} }

// SetFor returns the values for a state.
func (t *Table) SetFor(state string) []SetValue {
	return slices.DeleteFunc(slices.Clone(t.Set), func(v SetValue) bool { return v.State != state })
}

// ShowsParked reports whether a column of the row shows what becomes of a message that is parked. If none does, on_delivered: delete deletes the row
// at once.
func (t *Table) ShowsParked() bool { return t.Columns.Status != "" || len(t.Set) > 0 }

// DeadFlag returns the value by which a row looks dead: the first one for that state. It is nil if there is none, or if the status tells.
func (t *Table) DeadFlag() *SetValue {
	if t.Columns.Status != "" && !t.DeadLooksPending() {
		return nil
	}
	return t.DeadFlagBeside()
}

// DeadLooksPending reports whether the word for dead is one for pending, too.
func (t *Table) DeadLooksPending() bool { return slices.Contains(t.PendingWords(), t.Words.Dead) }

// DeadFlagBeside does the same as DeadFlag for a row whose status is missing.
func (t *Table) DeadFlagBeside() *SetValue {
	i := slices.IndexFunc(t.Set, func(v SetValue) bool { return v.State == "dead" })
	if i < 0 || t.Set[i].Null {
		return nil
	}
	return &t.Set[i]
}

// SetColumns are the columns that are set with any state, each once.
func (t *Table) SetColumns() []string {
	var names []string
	for i := range t.Set {
		if !slices.Contains(names, t.Set[i].Column) {
			names = append(names, t.Set[i].Column)
		}
	}
	return names
}
