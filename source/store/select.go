package store

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
)

// ScanChunk bounds how many deliveries one transaction examines for a request. A request that selects few of millions takes several transactions.
const ScanChunk = 5000

// A ParkedKey is a delivery's place in the order in which requests go through tailbox_parked: by lane, and within it by
// position.
type ParkedKey struct {
	Sink     string `json:"sink"`
	Group    string `json:"group"`
	Position string `json:"position"`
	ID       string `json:"id"`
	Table    string `json:"table"`
}

// KeyOf is the place of a delivery.
func KeyOf(p *checkpoint.Parked) ParkedKey {
	m := p.Message
	return ParkedKey{Sink: p.Sink, Group: m.Group, Position: m.Position.String(), ID: p.RowID(), Table: m.Table}
}

// Compare tells which of two comes first.
func (k *ParkedKey) Compare(o *ParkedKey) int {
	return cmp.Or(cmp.Compare(k.Sink, o.Sink), cmp.Compare(k.Group, o.Group), cmp.Compare(k.Position, o.Position),
		cmp.Compare(k.ID, o.ID), cmp.Compare(k.Table, o.Table))
}

// Key identifies the delivery within its pipeline.
func (k *ParkedKey) Key() checkpoint.Key {
	return checkpoint.Key{Sink: k.Sink, Table: k.Table, ID: k.ID}
}

// Lane is where the delivery is parked.
func (k *ParkedKey) Lane() checkpoint.Lane { return checkpoint.Lane{Sink: k.Sink, Group: k.Group} }

// A SelectedRow is a delivery that a request selects.
type SelectedRow struct {
	ParkedKey
	State      checkpoint.State
	Blocks     bool
	Alone      bool
	RowSettled bool
	// Ref is what else a store knows the delivery by; only that store looks at it.
	Ref any
}

// KeysOf are the keys of deliveries.
func KeysOf(rows []SelectedRow) []checkpoint.Key {
	out := make([]checkpoint.Key, len(rows))
	for i := range rows {
		out[i] = rows[i].Key()
	}
	return out
}

// A Chunk is the next deliveries that a request selects, in order.
type Chunk struct {
	Rows []SelectedRow
	Last *ParkedKey // the last one that was looked at
	End  bool       // nothing follows
}

// Behind is where a request goes on: behind the last delivery that it has looked at.
func Behind(sel *checkpoint.Selection, done *RequestResult) ParkedKey {
	if done.After != nil {
		return *done.After
	}
	return ParkedKey{Sink: sel.Sink}
}

// Look adds a delivery that was examined. matches: the request selects it, as far as the store can judge. A skip also leaves out deliveries that do
// not block.
func (c *Chunk) Look(r *checkpoint.Request, row *SelectedRow, matches bool) {
	key := row.ParkedKey
	c.Last = &key
	if matches && (r.Verb != checkpoint.VerbSkip || row.Blocks) {
		c.Rows = append(c.Rows, *row)
	}
}

// Finish ends the looking. Full: there may be more than what was looked at.
func (c *Chunk) Finish(r *checkpoint.Request, full bool, done *RequestResult) {
	name, limited := r.Selection.AtSink()
	c.End = !full || c.Last == nil || limited && c.Last.Sink > name
	c.limit(&r.Selection, done)
}

// Selects reports whether the verb is about parked deliveries.
func Selects(v checkpoint.Verb) bool {
	switch v {
	case checkpoint.VerbReplay, checkpoint.VerbEdit, checkpoint.VerbDrop, checkpoint.VerbSkip:
		return true
	}
	return false
}

// limit cuts a chunk to one transaction, and to what the request's limit leaves.
func (c *Chunk) limit(sel *checkpoint.Selection, done *RequestResult) {
	room := RequestChunk
	if sel.Limit > 0 {
		left := sel.Limit - done.Changed
		if left <= 0 {
			*c = Chunk{End: true}
			return
		}
		room = min(room, left)
	}
	if len(c.Rows) > room {
		c.cut(room)
	}
}

// cut leaves the first n rows; the others are for a later transaction.
func (c *Chunk) cut(n int) {
	c.Rows, c.End, c.Last = c.Rows[:n], false, nil
	if n > 0 {
		c.Last = &c.Rows[n-1].ParkedKey
	}
}

// Within cuts the chunk before the first delivery that is of none of the lanes.
func (c *Chunk) Within(lanes []checkpoint.Lane) {
	allowed := make(map[checkpoint.Lane]bool, len(lanes))
	for _, lane := range lanes {
		allowed[lane] = true
	}
	for i := range c.Rows {
		if !allowed[c.Rows[i].Lane()] {
			c.cut(i)
			return
		}
	}
}

// LanesFrom lists the sinks and groups of all lanes that a selection of groups may reach, from after's lane on. known are the sinks with parked
// deliveries.
func LanesFrom(sel *checkpoint.Selection, after ParkedKey, known map[string]bool) (sinks, groups []string) {
	wanted := []string{sel.Sink}
	if _, limited := sel.AtSink(); !limited {
		wanted = wanted[:0]
		for sink := range known {
			wanted = append(wanted, sink)
		}
		slices.Sort(wanted)
	}
	names := slices.Compact(slices.Sorted(slices.Values(sel.Groups)))
	for _, sink := range wanted {
		for _, group := range names {
			if cmp.Or(cmp.Compare(sink, after.Sink), cmp.Compare(group, after.Group)) < 0 {
				continue
			}
			sinks, groups = append(sinks, sink), append(groups, group)
		}
	}
	return sinks, groups
}

// StatesOf are the states that a request is about, dead by default.
func StatesOf(r *checkpoint.Request) []string {
	if len(r.Selection.States) == 0 || r.Verb == checkpoint.VerbEdit {
		return []string{string(checkpoint.StateDead)}
	}
	states := make([]string, len(r.Selection.States))
	for i, state := range r.Selection.States {
		states[i] = string(state)
	}
	return states
}

// A glob selects texts: * stands for any run of characters, ? for one, and a backslash takes the character behind it as it is. A backslash alone stands for
// the empty text, which a selection could not name otherwise.

// GlobOf returns a glob that matches a text, and no other.
func GlobOf(text string) string {
	if text == "" {
		return `\`
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(text)
}

// LikePattern turns a glob into a pattern for LIKE with a character that escapes; "" stays "".
func LikePattern(glob string, escape rune) string {
	var b strings.Builder
	literal := false
	for _, c := range glob {
		switch {
		case !literal && c == '\\':
			literal = true
			continue
		case !literal && c == '*':
			b.WriteByte('%')
		case !literal && c == '?':
			b.WriteByte('_')
		case c == '%', c == '_', c == escape:
			b.WriteRune(escape)
			b.WriteRune(c)
		default:
			b.WriteRune(c)
		}
		literal = false
	}
	return b.String()
}

// MatchGlob reports whether a text matches a glob.
func MatchGlob(glob, text string) bool {
	const slash = "\u0001" // * does not pass a slash in package path
	if bare := strings.TrimRight(glob, `\`); (len(glob)-len(bare))%2 == 1 {
		glob = glob[:len(glob)-1] // a backslash with nothing behind it
	}
	// What is behind a backslash stays as it is; else a bracket is no class.
	glob = strings.NewReplacer(`\\`, `\\`, `\[`, `\[`, `\/`, slash, "[", `\[`, "/", slash).Replace(glob)
	ok, err := path.Match(glob, strings.ReplaceAll(text, "/", slash))
	return err == nil && ok
}
