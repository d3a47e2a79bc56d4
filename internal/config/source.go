package config

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
)

var slotPattern = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// readSource reads the section source, and the router options under its tables. shared are the options of the whole
// pipeline.
func readSource(s *Section, pipeline string, shared router.Options) (Source, []router.Options) {
	byDefault := "tailbox_" + strings.ReplaceAll(pipeline, "-", "_")
	if s == nil {
		return Source{}, nil
	}
	defer s.Done()
	src := Source{Kind: s.String("kind", "")}
	switch src.Kind {
	case "postgres", "mysql", "mariadb", "mongodb":
	case "":
		s.Add("kind", "", "is missing", "postgres", "mysql", "mariadb", "mongodb")
	default:
		s.Add("kind", src.Kind, "is unknown", "postgres", "mysql", "mariadb", "mongodb")
	}
	before := len(s.file.problems)
	if src.URL = s.Secret("url"); src.URL == "" && len(s.file.problems) == before {
		example := "a URI such as postgres://user@host:5432/database, or libpq keywords such as host=/var/run/postgresql dbname=shop"
		switch src.Kind {
		case "mongodb":
			example = "a URI such as mongodb://user@host:27017/database?replicaSet=rs0"
		case "mysql", "mariadb":
			example = "a URI such as mysql://user@host:3306/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock"
		}
		s.Add("url", "", "is missing: give "+example)
	}
	switch src.Kind {
	case "mongodb":
		src.Schema = s.String("schema", "")
		src.Start = s.Choice("start", "", "pending", "now")
	case "mysql", "mariadb":
		readMySQL(s, &src)
	default:
		readPostgres(s, &src, byDefault)
	}
	src.Reconcile = s.Duration("reconcile", defaultReconcile)
	var options []router.Options
	src.Tables, options = readTables(s, src.Kind, shared)
	if src.Poll {
		checkPoll(s, &src)
	}
	src.OnUpdate = updateLevel(append(options[:len(options):len(options)], shared))
	return src, options
}

// checkPoll tells what polling needs: rows in one order, which say themselves whether they are done.
func checkPoll(s *Section, src *Source) {
	if src.Reconcile <= 0 {
		s.Add("reconcile", "0", "must be above 0 with read: poll, because the comparison with the table is what finds rows whose number is below what was read")
	}
	if len(src.Tables) > 1 {
		s.Add("tables", "", fmt.Sprintf("has %d tables, and read: poll takes one, because the sequences of two have no common order: "+
			"give each table a pipeline of its own", len(src.Tables)))
	}
	for i := range src.Tables {
		t := &src.Tables[i]
		if t.Columns.Seq == "" {
			s.file.Add(s.at("tables", strconv.Itoa(i), "columns", "seq"), "", "is missing: read: poll goes by a column that a sequence (identity, AUTO_INCREMENT) fills: name it")
		}
		if t.OnDelivered == outbox.Keep {
			s.file.Add(s.at("tables", strconv.Itoa(i), "on_delivered"), string(t.OnDelivered), "cannot be used with read: poll, "+
				"because nothing would tell which rows are delivered", string(outbox.Delete), string(outbox.Mark))
		}
	}
}

// readPostgres reads what only Postgres has.
func readPostgres(s *Section, src *Source, byDefault string) {
	src.LockURL = s.Secret("lock_url")
	src.Slot = s.String("slot", byDefault)
	if !slotPattern.MatchString(src.Slot) {
		s.Add("slot", src.Slot, "must be 1 to 63 small letters, digits or _, as Postgres asks for")
	}
	src.Publication = s.identifier("publication", s.String("publication", byDefault))
	if len(src.Publication) > 63 {
		s.Add("publication", src.Publication, "must have at most 63 bytes")
	}
	src.Failover = s.Bool("failover", false)
	src.TakeOver = s.Bool("take_over", false)
	src.Schema = s.identifier("schema", s.String("schema", ""))
	readStart(s, src)
}

// readMySQL reads what only MySQL and MariaDB have.
func readMySQL(s *Section, src *Source) {
	src.LockURL = s.Secret("lock_url")
	src.ServerID = uint32(s.Int("server_id", 0, 1, math.MaxUint32))
	src.Schema = s.String("schema", "")
	readStart(s, src)
}

func readStart(s *Section, src *Source) {
	src.Start = s.Choice("start", "", "pending", "now")
	src.Poll = s.Choice("read", "log", "log", "poll") == "poll"
}

func readTables(s *Section, kind string, shared router.Options) ([]outbox.Table, []router.Options) {
	sections := s.Sections("tables")
	if len(sections) == 0 {
		if s.Has("tables") {
			s.Add("tables", "", "is empty: list the outbox tables, or leave it out for one table outbox of shape debezium")
		}
		t, _ := readTable(s.file.section(emptyNode(), s.at("tables", "0")), kind, shared)
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
	name := s.String("name", "outbox")
	t := outbox.Table{Shape: s.String("shape", "debezium")}
	var err error
	if t.Schema, t.Name, err = splitName(name); err != nil {
		s.Add("name", name, err.Error())
	}
	var own router.Options
	if section := s.Section("router"); section != nil {
		own = section.options()
	}
	shape, ok := outbox.ShapeNamed(t.Shape)
	if !ok {
		s.unavailable("shape", t.Shape, []string{"yantra", "gopipe", "talkie", "flowcatalyst", "memo"}, shapeNames())
		s.Allow("columns", "on_delivered")
		return t, own
	}
	if kind == "mongodb" {
		shape = asDocuments(shape)
	}
	t.Words = shape.Words
	t.Columns = readColumns(s, &shape, columnOptions(t.Shape, shared, own))
	t.OnDelivered = readOnDelivered(s, &t.Columns)
	merged := shared.With(own)
	t.Fields, t.Optional = merged.Fields(t.Columns), merged.Optional()
	return t, own
}

// asDocuments is a shape in MongoDB: the id of a document is its _id, and nothing there counts a sequence.
func asDocuments(s outbox.Shape) outbox.Shape {
	s.Columns.ID, s.Columns.Seq = "_id", ""
	return s
}

// updateLevel is the level at which updates of outbox rows are logged; nil = they are only counted.
func updateLevel(all []router.Options) *slog.Level {
	var level *slog.Level
	for _, o := range all {
		switch behavior, _ := o.Get("table.op.invalid.behavior"); {
		case behavior == "error", behavior == "fatal":
			return new(slog.LevelError)
		case behavior != "":
			level = new(slog.LevelWarn)
		}
	}
	return level
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

// readColumns lays the columns of the file, and those that router options name, over the shape's.
func readColumns(s *Section, shape *outbox.Shape, named map[string]string) outbox.Columns {
	columns := shape.Columns
	explicit := map[string]bool{}
	section := s.Section("columns")
	var group []string
	if section != nil {
		for _, key := range section.Keys() {
			field := columns.Field(key)
			explicit[key] = true
			switch {
			case key == "group":
				group = section.columns(key)
			case field == nil:
				section.Add(key, "", "is no column that tailbox knows", outbox.ColumnNames...)
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
	return columns
}

// columns reads names of columns; none for an empty text.
func (s *Section) columns(key string) []string {
	var names []string
	for _, name := range s.Strings(key) {
		if name != "" {
			names = append(names, s.identifier(key, name))
		}
	}
	return names
}

// identifier reads a name that may be quoted as in SQL.
func (s *Section) identifier(key, name string) string {
	if !strings.Contains(name, `"`) {
		return name
	}
	part, rest, err := cutIdentifier(name)
	if err != nil || rest != "" || name[0] != '"' {
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
		for _, key := range outbox.ColumnNames {
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
