package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

func readTables(s *Section, kind string, shared router.Options) ([]outbox.Table, []router.Options) {
	sections := s.Sections("tables")
	if len(sections) == 0 {
		if s.Has("tables") {
			s.Add("tables", "", "is empty: list the outbox tables, or leave it out for one table outbox of shape debezium")
		}
		t, _ := readTable(s.item("tables", 0), kind, shared)
		return []outbox.Table{t}, nil
	}
	var tables []outbox.Table
	var options []router.Options
	for i, section := range sections {
		if section == nil {
			continue
		}
		t, own := readTable(section, kind, shared)
		section.Done()
		for _, other := range tables {
			if other.Name == t.Name && other.Schema == t.Schema {
				s.file.Add(s.at("tables", strconv.Itoa(i), "name"), t.Name, "is listed twice: list each table once")
			}
		}
		tables, options = append(tables, t), append(options, own)
	}
	return tables, options
}

func readTable(s *Section, kind string, shared router.Options) (outbox.Table, router.Options) {
	t := outbox.Table{Shape: s.String("shape", "debezium")}
	shape, ok := outbox.ShapeNamed(t.Shape)
	name := "outbox"
	if ok {
		name = shape.Tables[0]
	}
	name = s.String("name", name)
	var err error
	if t.Schema, t.Name, err = SplitTable(name); err != nil {
		s.Add("name", name, err.Error())
	}
	var own router.Options
	if section := s.Section("router"); section != nil {
		own = section.options()
	}
	if !ok {
		s.Add("shape", t.Shape, "is unknown", shapeNames()...)
		s.Allow("columns", "on_delivered", "words", "topic", "retention", "tenants", "feedback", "ungrouped", "headers", "set")
		return t, own
	}
	if kind == "mongodb" {
		shape = shape.AsDocuments()
	}
	t.Columns, t.References = readColumns(s, &shape, columnOptions(t.Shape, shared, own))
	t.Ungrouped = s.Strings("ungrouped")
	if headers := s.Section("headers"); headers != nil {
		t.Headers = outbox.HeaderFilter{Allow: headers.Strings("allow"), Deny: headers.Strings("deny")}
		headers.Done()
	}
	if kind == "mongodb" {
		refusePaths(s, &t.Columns)
	}
	t.Set = readSet(s)
	t.Words, t.AlsoPending = readWords(s, shape.Words, &t)
	if t.Reference("topic") == nil || s.Has("topic") {
		t.Topic = readTopic(s, shape.Topic, &t.Columns)
	}
	t.OnDelivered = readOnDelivered(s, &t.Columns)
	checkSet(s, &t)
	checkWritten(s, &t)
	merged := router.OptionsOf(&t, shared, own)
	t.Fields, t.Optional = merged.Fields(t.Columns), merged.Optional()
	t.NeedsType = merged.NeedsType(t.Columns)
	readKept(s, &shape, &t)
	readFeedback(s, kind, &t)
	s.keepTable(&t, &shape)
	return t, own
}

// readWords lays the words of the file over the shape's. One word may stand for several states of a row that is not done, but a row
// that is done or given up must not look as if it waited.
func readWords(s *Section, byShape outbox.Words, t *outbox.Table) (words outbox.Words, also []string) {
	words = byShape
	section := s.Section("words")
	if section == nil {
		return words, nil
	}
	defer section.Done()
	if t.Columns.Status == "" {
		s.Add("words", "", "have no effect, because the table has no status column: name it as columns.status, or leave words out")
	}
	for _, key := range outbox.WordNames() {
		word := words.Word(key)
		if key != "pending" {
			*word = section.String(key, *word)
		} else if list := section.Strings(key); len(list) > 0 {
			*word, also = list[0], list[1:]
		}
	}
	// Two values are enough if another column tells which rows are dead, or if a column has no third one.
	flag := words.Pending == "false" && words.Delivered == "true" || words.Pending == "true" && words.Delivered == "false"
	two := len(t.SetFor("dead")) > 0 || words.Dead == words.Pending && flag
	for _, key := range []string{"delivered", "dead"} {
		if word := *words.Word(key); (word == words.Pending || slices.Contains(also, word)) && !(key == "dead" && two) {
			section.Add(key, word, "is the word for pending too, so such rows would be delivered again: give it a word of its own, or set a column of your own under set.dead")
		}
	}
	if words.Dead == words.Delivered {
		section.Add("dead", words.Dead, "is the word for delivered too, so a dead letter would look delivered: give it a word of its own")
	}
	for _, key := range []string{"retrying", "waiting"} {
		if word := *words.Word(key); word == words.Delivered {
			section.Add(key, word, "is the word for delivered too, so a row that is not delivered yet would look as if it were: "+
				"give it a word of its own, or the one for pending")
		}
	}
	if n := words.Numbers(); n != 0 && n != len(outbox.WordNames()) {
		s.Add("words", strings.Join(words.List(), " "), "mixes whole numbers and words: give all five as numbers for a column of numbers, or none",
			outbox.WordNames()...)
	}
	for _, word := range also {
		if _, ok := outbox.Number(word); ok != (words.Numbers() > 0) {
			section.Add("pending", word, "mixes whole numbers and words: give all words as numbers for a column of numbers, or none")
		}
	}
	return words, also
}

// readTopic reads the template of topics, for tables without a column for them. It wins over a column that only the shape names.
func readTopic(s *Section, byDefault string, columns *outbox.Columns) string {
	text := s.String("topic", byDefault)
	if s.Has("topic") {
		if _, named := child(s.node, "columns"); named != nil && columnNamed(named, "topic") {
			s.Add("topic", text, "stands beside columns.topic, which names the column that holds the topic: keep one of the two")
		}
		columns.Topic = ""
	}
	if columns.Topic == "" {
		return text // the router tells what is wrong with it
	}
	return ""
}

// columnNamed reports whether the mapping columns gives the column a name.
func columnNamed(columns *yaml.Node, key string) bool {
	_, v := child(columns, key)
	return v != nil && !isNull(v)
}

// ShapeTables are the tables of a shape in a kind of database, with nothing named otherwise.
func ShapeTables(name, kind string) ([]outbox.Table, error) {
	shape, ok := outbox.ShapeNamed(name)
	if !ok {
		return nil, fmt.Errorf("there is no shape %q: choose one of %s", name, strings.Join(shapeNames(), ", "))
	}
	if kind == "mongodb" {
		shape = shape.AsDocuments()
	}
	var tables []outbox.Table
	for _, name := range shape.Tables {
		t := shape.Table(name)
		t.Fields = router.Options(shape.Router).Fields(t.Columns)
		tables = append(tables, t)
	}
	return tables, nil
}

func shapeNames() []string {
	var names []string
	for _, s := range outbox.Shapes() {
		names = append(names, s.Name)
	}
	return names
}

// columnOptions returns the columns that router options name for a table. Those of the whole pipeline speak of tables of
// shape debezium only.
func columnOptions(shape string, shared, own router.Options) map[string]string {
	if shape != "debezium" {
		return own.Columns()
	}
	return shared.With(own).Columns()
}

// readColumns lays the columns of the file, and those that router options name, over the shape's. Of parts that stand elsewhere it returns where.
func readColumns(s *Section, shape *outbox.Shape, named map[string]string) (columns outbox.Columns, references []outbox.Reference) {
	columns = shape.Columns
	explicit := map[string]bool{}
	section := s.Section("columns")
	var group []string
	if section != nil {
		for _, key := range section.Keys() {
			field := columns.Field(key)
			explicit[key] = true
			text, isText := section.reference(key)
			switch {
			case isText:
				if r, err := outbox.ParseReference(key, text); err != nil {
					section.Add(key, text, err.Error())
				} else {
					references = append(references, r)
				}
				if field != nil {
					*field = ""
				}
			case key == "group":
				group = section.columns(key)
			case field == nil:
				section.Add(key, "", "is no column that tailbox knows", outbox.ColumnNames()...)
			default:
				*field = section.identifier(key, section.String(key, ""))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(named)) {
		field, name := columns.Field(key), s.identifier("columns", named[key])
		if explicit[key] && *field != name {
			section.Add(key, *field, fmt.Sprintf("contradicts the router's %s, which names the column %q: keep one of the two", optionOf(key), name))
			continue
		}
		*field = name
	}
	if explicit["group"] {
		columns.Group = group
	} else {
		columns.Group = followGroup(s, shape, &columns)
	}
	for _, need := range []string{"id", "payload"} {
		if *columns.Field(need) == "" {
			s.file.Add(s.at("columns", need), "", "must name a column: a table without one cannot be an outbox")
		}
	}
	return columns, references
}

// reference returns the text of a column that is meant as a reference.
func (s *Section) reference(key string) (text string, ok bool) {
	_, v := child(s.node, key)
	if v == nil || v.Kind != yaml.ScalarNode || !outbox.IsReference(v.Value) {
		return "", false
	}
	text = s.String(key, "")
	return text, outbox.IsReference(text) // else a variable of the environment
}

// refusePaths refuses names of fields within documents, which are not read. Where the relay only writes, and looks for what it wrote,
// a path is as good as a name.
func refusePaths(s *Section, columns *outbox.Columns) {
	refuse := func(key, name string) {
		if strings.Contains(name, ".") {
			s.file.Add(s.at("columns", key), name, "is a path into a document: name a field that stands in the document itself")
		}
	}
	for _, key := range []string{"id", "type", "topic", "key", "payload", "headers", "tenant", "content_type", "idempotency_key", "correlation_id",
		"priority", "available_at", "max_attempts", "created_at", "seq"} {
		refuse(key, *columns.Field(key))
	}
	for _, name := range columns.Group {
		refuse("group", name)
	}
}

// columns reads names of columns; none for an empty text.
func (s *Section) columns(key string) []string {
	var names []string
	for _, name := range s.Strings(key) {
		switch {
		case outbox.IsReference(name):
			s.Add(key, name, "is a reference in a list: a group is made of columns, or of one reference alone")
		case name != "":
			names = append(names, s.identifier(key, name))
		}
	}
	return names
}

// identifier reads a name that may be quoted as in SQL.
func (s *Section) identifier(key, name string) string {
	if !strings.ContainsAny(name, "\"`") {
		return name
	}
	part, rest, err := cutIdentifier(name)
	if err != nil || rest != "" || name[0] != '"' && name[0] != '`' {
		s.Add(key, name, `is no name: write it as it is in the database, such as ID, or quoted as in SQL, with each quote inside twice, such as "ID"`)
		return name
	}
	return part
}

// optionOf is Debezium's spelling of a column.
func optionOf(key string) string {
	switch key {
	case "topic":
		return "route.by.field"
	case "created_at":
		return "table.field.event.timestamp"
	}
	return "table.field.event." + key
}

// followGroup gives the group's columns their new names, where the shape's group is made of columns that were renamed
// for another purpose: the topic and key of shape debezium.
func followGroup(s *Section, shape *outbox.Shape, columns *outbox.Columns) []string {
	before := shape.Columns
	var group []string
	for _, name := range shape.Columns.Group {
		renamed := name
		for _, key := range outbox.ColumnNames() {
			if old := before.Field(key); old != nil && *old == name {
				renamed = *columns.Field(key)
			}
		}
		if renamed == "" {
			s.file.Add(s.at("columns", "group"), "", fmt.Sprintf("must be set, because the group's column %s was taken away: name the group's columns, or set it to null for no order", name))
			return nil
		}
		group = append(group, renamed)
	}
	return group
}

func readOnDelivered(s *Section, columns *outbox.Columns) outbox.OnDelivered {
	byDefault := outbox.Delete
	canMark := columns.Status != "" || columns.DeliveredAt != ""
	if canMark {
		byDefault = outbox.Mark
	}
	choice := s.Choice("on_delivered", string(byDefault), string(outbox.Delete), string(outbox.Mark), string(outbox.Keep))
	if choice == string(outbox.Mark) && !canMark {
		s.Add("on_delivered", choice, "needs a column status or delivered_at: name one under columns, or choose delete or keep")
	}
	return outbox.OnDelivered(choice)
}
