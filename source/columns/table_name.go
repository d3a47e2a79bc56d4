package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Uncreated tells why a table that does not exist is not created without being asked for: its name is that of another table but for case
// or spelling, or its columns have names of their own, so that it was probably there all along. Existing are the tables beside it, configured all that
// are to exist. "" if it may be created.
func Uncreated(t *outbox.Table, existing []string, configured []outbox.Table) string {
	name := configuredName(t)
	if near := NearTable(t, existing, configured); near != "" {
		return fmt.Sprintf("table %s does not exist (did you mean %s?): write the name as the database has it, or run tailbox init --create-table", name, near)
	}
	if key := remapped(t); key != "" {
		return fmt.Sprintf("table %s does not exist, and columns.%s has a name of its own, as if the table were there: correct source.tables, or run tailbox init --create-table",
			name, key)
	}
	return ""
}

// NearTable is the table whose name was probably meant; "" if there is none.
func NearTable(t *outbox.Table, existing []string, configured []outbox.Table) string {
	var others []string
	for _, name := range existing {
		wanted := strings.HasPrefix(name, "tailbox_") || name != t.Name && withoutDigits(name) == withoutDigits(t.Name) // numbered tables
		for i := range configured {
			wanted = wanted || configured[i].Name == name
		}
		if !wanted {
			others = append(others, name)
		}
	}
	return Near(t.Name, others)
}

// Unknown is the error for a table that a command line names and that is not there: with the table whose name was probably meant, as a shell takes it, and
// who must see it. tablesBeside returns the tables in a table's schema, or those that are found without one: a dot may be part of a name.
func Unknown(t *outbox.Table, who string, tablesBeside func(*outbox.Table) ([]string, error)) error {
	beside, err := tablesBeside(t)
	if err != nil {
		return err
	}
	here, err := tablesBeside(&outbox.Table{Name: t.Name})
	if err != nil {
		return err
	}
	hint, near := "", NearTable(t, beside, nil)
	if whole := configuredName(t); near == "" && slices.Contains(here, whole) {
		near = whole
	}
	if near != "" {
		if strings.Contains(near, ".") {
			near = `'"` + near + `"'`
		}
		hint = " (did you mean " + near + "?)"
	}
	return fmt.Errorf("there is no table %s%s, or %s, and quoted if it holds a dot", configuredName(t), hint, who)
}

// configuredName is a table's name as the configuration has it.
func configuredName(t *outbox.Table) string {
	if t.Schema == "" {
		return t.Name
	}
	return t.String()
}

func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// remapped is the key of a column to which the configuration gives another name than the shape does.
func remapped(t *outbox.Table) string {
	shape, ok := outbox.ShapeNamed(t.Shape)
	if !ok {
		return ""
	}
	documents := shape.AsDocuments()
	for _, key := range outbox.ColumnNames() {
		own, given, doc := t.Columns.Field(key), shape.Columns.Field(key), documents.Columns.Field(key)
		if own != nil && *own != "" && *given != "" && *own != *given && *own != *doc {
			return key
		}
	}
	return ""
}

// OtherCase finds columns that the table has in other letters only, such as Status for status, and that are left alone therefore. named: the
// configuration names it, and not the shape alone.
func OtherCase(t *outbox.Table, names []string, found func(key, name, near string, named bool)) {
	shape, _ := outbox.ShapeNamed(t.Shape)
	for _, key := range outbox.ColumnNames() {
		field := t.Columns.Field(key)
		if field == nil || *field == "" {
			continue
		}
		near := ""
		for _, name := range names {
			if name == *field {
				near = ""
				break
			}
			if strings.EqualFold(name, *field) {
				near = name
			}
		}
		if near != "" {
			given := shape.Columns.Field(key)
			found(key, *field, near, given == nil || *given != *field)
		}
	}
}
