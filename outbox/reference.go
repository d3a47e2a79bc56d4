package outbox

import (
	"fmt"
	"slices"
	"strings"
)

// A Reference says where a part of a table's messages stands that has no column of its own.
type Reference struct {
	// Part is the key of `columns` that it stands for, one of ReferenceParts.
	Part string
	// Header is the name of a header, whose first value it is; or "".
	Header string
	// Path leads to a value in a JSON payload, from object to object; nil if the part is a header.
	Path []string
}

// ReferenceParts are the parts of a message that a Reference can stand for.
func ReferenceParts() []string { return []string{"type", "topic", "group", "key", "tenant"} }

// IsReference reports whether a text is meant as a reference, and not as the name of a column.
func IsReference(text string) bool { return strings.HasPrefix(text, "${") }

// ParseReference reads ${header.NAME} or ${payload.FIELD}, with a dot before the field of a field. The error says what is wrong with the text.
func ParseReference(part, text string) (Reference, error) {
	if !slices.Contains(ReferenceParts(), part) {
		return Reference{}, fmt.Errorf("is no column: only %s can come from a header or from the payload", strings.Join(ReferenceParts(), ", "))
	}
	inner, closed := strings.CutSuffix(strings.TrimPrefix(text, "${"), "}")
	kind, name, _ := strings.Cut(inner, ".")
	path := strings.Split(name, ".")
	switch {
	case !closed || name == "" || strings.ContainsAny(inner, "{}"):
	case kind == "header":
		return Reference{Part: part, Header: name}, nil
	case kind == "payload" && !slices.Contains(path, ""):
		return Reference{Part: part, Path: path}, nil
	}
	return Reference{}, fmt.Errorf("is no reference: write ${header.NAME} for a header, or ${payload.FIELD} for a field of a JSON payload, as in ${payload.order.id}")
}

// String is the reference as the configuration has it.
func (r *Reference) String() string {
	if r.Header != "" {
		return "${header." + r.Header + "}"
	}
	return "${payload." + strings.Join(r.Path, ".") + "}"
}

// Reference returns where a part of the table's messages stands; nil if a column holds it, or nothing.
func (t *Table) Reference(part string) *Reference {
	i := slices.IndexFunc(t.References, func(r Reference) bool { return r.Part == part })
	if i < 0 {
		return nil
	}
	return &t.References[i]
}

// HeaderFilter chooses which of the application's headers go to sinks, by globs for their names, in which * stands for any run of characters and ?
// for one. The zero value lets all pass.
type HeaderFilter struct {
	// Allow: if there are any, only headers that one of them matches pass.
	Allow []string
	// Deny: headers that one of them matches do not pass, even if they are allowed.
	Deny []string
}
