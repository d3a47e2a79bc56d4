package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// readSet reads the values that columns of the application's own get with a state.
func readSet(s *Section) (values []outbox.SetValue) {
	states := s.Section("set")
	if states == nil {
		return nil
	}
	defer states.Done()
	for _, state := range outbox.SetStates() {
		columns := states.Section(state)
		if columns == nil {
			continue
		}
		for _, name := range columns.Keys() {
			v := outbox.SetValue{State: state, Column: columns.identifier(name, name)}
			if _, n := child(columns.node, name); isNull(n) {
				v.Null = true
				columns.keep(name, nil)
			} else {
				v.Value = columns.String(name, "")
				v.Now = v.Value == "now"
			}
			values = append(values, v)
		}
		columns.Done()
	}
	return values
}

// checkSet refuses what has no effect, or contradicts what tailbox writes itself.
func checkSet(s *Section, t *outbox.Table) {
	if len(t.Set) == 0 {
		return
	}
	if t.OnDelivered == outbox.Keep {
		s.Add("set", "", "has no effect with on_delivered: keep, which leaves rows as they are: choose mark or delete")
	}
	own := []string{t.Columns.ID, t.Columns.Payload, t.Columns.Headers, t.Columns.Type, t.Columns.Topic, t.Columns.Key, t.Columns.Status, t.Columns.Attempts, t.Columns.Failures,
		t.Columns.DeliveredAt, t.Columns.LastAttemptAt, t.Columns.NextAttemptAt, t.Columns.LastError, t.Columns.UpdatedAt, t.Columns.Receipt}
	own = append(own, t.Columns.Group...)
	for _, v := range t.Set {
		if slices.ContainsFunc(own, func(name string) bool { return strings.EqualFold(name, v.Column) }) {
			fix := "name another one"
			for _, key := range outbox.ColumnNames() {
				if field := t.Columns.Field(key); field != nil && strings.EqualFold(*field, v.Column) && key != "id" && key != "payload" {
					fix += fmt.Sprintf(", or take it away under columns (%s: null)", key)
				}
			}
			s.file.Add(s.at("set", v.State, v.Column), v.Value, "is a column that tailbox reads or writes itself: "+fix)
		}
	}
	if dead := t.SetFor("dead"); len(dead) > 0 && dead[0].Null && (t.Columns.Status == "" || t.DeadLooksPending()) {
		s.file.Add(s.at("set", "dead", dead[0].Column), "null", "does not tell which rows are dead, and no status does: name first the column that tells, with a value")
	}
	if t.OnDelivered == outbox.Delete && len(t.SetFor("delivered")) > 0 {
		s.AddAt([]string{"set", "delivered"}, "has no effect with on_delivered: delete, because the row is gone then")
	}
}

// checkWritten refuses one column for two things that tailbox writes into it. Postgres refuses such a statement, and MySQL writes the last one.
func checkWritten(s *Section, t *outbox.Table) {
	if t.OnDelivered == outbox.Keep || t.OnDelivered == outbox.Delete && !t.ShowsParked() {
		return // a row is not written, or only deleted
	}
	of := make(map[string]string)
	for _, key := range outbox.MarkNames() {
		name := *t.Columns.Field(key)
		if other := of[name]; name != "" && other != "" {
			s.file.Add(s.at("columns", key), name, fmt.Sprintf("is the column of %s, too, and tailbox writes both: name another one, or take one away (%s: null)", other, other))
		}
		of[name] = key
	}
}
