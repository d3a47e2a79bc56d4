package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Output is the flag -o.
type Output struct {
	JSON bool
	// Format is what was asked for; "" for nothing.
	Format string
}

// Flag adds the flag.
func (o *Output) Flag(fs *flag.FlagSet) { o.FlagOf(fs, "text", "json") }

// FlagOf adds the flag with formats of its own.
func (o *Output) FlagOf(fs *flag.FlagSet, formats ...string) {
	choice := Choice(formats)
	fs.Func("o", "`FORMAT`: "+choice, func(v string) error {
		if !slices.Contains(formats, v) {
			return fmt.Errorf("must be %s", choice)
		}
		o.JSON, o.Format = v == "json", v
		return nil
	})
}

// Choice lists words: a, b or c.
func Choice(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// PrintJSON prints a value as people read JSON.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Table prints rows in columns; the first row is the heading. What is wider than wideCell does not widen its column: it pushes
// the rest of its own line aside, so that ids are whole, to be copied, and the other lines stay in order.
func Table(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if n := utf8.RuneCountInString(text); n <= wideCell {
				widths[i] = max(widths[i], n)
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		start, at := 0, 0 // where the column starts, and where the line has come to
		var line strings.Builder
		for i, text := range row {
			if i > 0 {
				gap := max(start-at, 2)
				line.WriteString(strings.Repeat(" ", gap))
				at += gap
			}
			line.WriteString(text)
			at += utf8.RuneCountInString(text)
			start += widths[i] + 2
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	// MaxCell bounds words. Names that commands take are not cut.
	MaxCell  = 40
	wideCell = 40
	// MaxMessage bounds sentences.
	MaxMessage = 90
)

// Cell makes text fit into a table: characters that are not printed become spaces, and text that is longer than most is cut; 0 = never.
func Cell(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	runes := []rune(s)
	if most == 0 || len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// Count says how many, with the noun in its right form.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
