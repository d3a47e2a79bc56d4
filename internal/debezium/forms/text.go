package forms

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

var comment = lazyregexp.New(`(?s)\A\s*(?://[^\n]*(?:\n|\z)|#[^\n]*(?:\n|\z)|/\*.*?\*/)`)

// WithoutComments returns a text without the comments that it begins with.
func WithoutComments(text []byte) []byte {
	for m := comment().Find(text); m != nil; m = comment().Find(text) {
		text = bytes.TrimSpace(text[len(m):])
	}
	return text
}

// status is the head of an answer, as curl -i prints it in front of the body.
var status = lazyregexp.New(`\AHTTP/[0-9.]+ [0-9]{3}[^\n]*\n(?:[A-Za-z0-9-]+:[^\n]*\n)*\r?\n`)

// WithoutHead returns a text without the head of an HTTP answer that it begins with. Its lines stay where they are.
func WithoutHead(text []byte) []byte {
	return InPlace(text, text[len(status().Find(text)):])
}

// InPlace is a part of a text, on the lines on which it stands there.
func InPlace(whole, part []byte) []byte {
	at := max(bytes.LastIndex(whole, part), 0) // the last: comments in front may hold the same
	return append(bytes.Repeat([]byte("\n"), bytes.Count(whole[:at], []byte("\n"))), part...)
}

// Decoded is a text as UTF-8, if its first character tells that it is UTF-16, as PowerShell writes it.
func Decoded(text []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return text
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

// ReferencePrefix begins a reference of a script: ${shell:NAME}, with :- or - and a default, which may hold others. ${shell:!TEXT} is what a shell works out,
// and ${shell:=NAME} a secret that the script itself sets or has a default for.
const ReferencePrefix = "${shell:"

// setSecret stands in a reference before the name of a secret that the script sets.
const setSecret = "="

// SetSecret reports whether what stands in a reference names a secret that the script sets.
func SetSecret(inner string) (name string, set bool) { return strings.CutPrefix(inner, setSecret) }

// plainReference is a reference of a script without a default.
var plainReference = lazyregexp.New(`^\$\{shell:\w+\}$`)

// hide writes the braces of a text as characters for private use, because a brace ends a reference.
func hide(text string) string { return strings.NewReplacer("{", "\uE07B", "}", "\uE07D").Replace(text) }

// Show writes such characters, and others of shellReference, as they were.
func Show(text string) string {
	return strings.NewReplacer("\uE07B", "{", "\uE07D", "}", "\uE022", `"`, "\uE05C", `\`, "\uE00A", " ").Replace(text)
}

// shellReference writes a reference. What a shell works out can stand in JSON.
func shellReference(name, sign, byDefault string) string {
	if name == "!" {
		sign = strings.NewReplacer(`"`, "\uE022", `\`, "\uE05C", "\n", "\uE00A", "\t", "\uE00A").Replace(hide(sign))
	}
	return ReferencePrefix + name + sign + byDefault + "}"
}

// balanced hides the braces of a text, but for those of references in it.
func balanced(text string) string {
	return EachReference(text, hide, func(ref string) string { return ref })
}

// EachReference replaces the references of a script in a text, and what stands between them.
func EachReference(text string, other, reference func(string) string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, ReferencePrefix)
		size := 0
		if at >= 0 {
			size = ReferenceSize(text[at:])
		}
		if size == 0 {
			b.WriteString(other(text))
			return b.String()
		}
		b.WriteString(other(text[:at]))
		b.WriteString(reference(text[at : at+size]))
		text = text[at+size:]
	}
}

// ReferenceSize is the size of the reference that a text begins with; 0 if it does not end.
func ReferenceSize(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// quoteReferences puts quotes around references that stand for a whole value of JSON, such as a number. part is the first one that stands where JSON has no value.
func quoteReferences(text string) (quoted, part string) {
	inside, last := false, byte(0)
	quoted = EachReference(text, func(other string) string {
		for i := 0; i < len(other); i++ {
			switch {
			case inside && other[i] == '\\':
				i++
			case other[i] == '"':
				inside, last = !inside, '"'
			case inside, strings.IndexByte(" \t\r\n", other[i]) >= 0:
			case strings.HasPrefix(other[i:], "//"):
				i += len(other[i:]) - len(strings.TrimLeft(other[i:], "/"))
				if end := strings.IndexByte(other[i:], '\n'); end >= 0 {
					i += end
				} else {
					i = len(other)
				}
			case strings.HasPrefix(other[i:], "/*"):
				if end := strings.Index(other[i:], "*/"); end >= 0 {
					i += end + 1
				}
			default:
				last = other[i]
			}
		}
		return other
	}, func(ref string) string {
		if inside {
			return ref
		}
		if part == "" && last != ':' && last != '[' {
			part = ref
		}
		last = '"'
		return `"` + ref + `"`
	})
	return quoted, part
}

// Written is a text with references as the script has them.
func Written(text string) string {
	text = strings.NewReplacer(ReferencePrefix+"!", "", ReferencePrefix+setSecret, "${", ReferencePrefix, "${").Replace(text)
	return Show(text)
}

// NamesSecret reports whether a default refers to a secret.
func NamesSecret(byDefault string) (found bool) {
	EachReference(byDefault, strings.Clone, func(ref string) string {
		found = found || SecretName().MatchString(ref)
		return ref
	})
	return found
}
