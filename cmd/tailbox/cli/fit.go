package cli

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fit makes a table no wider than a screen; width 0 is wide enough for all. It cuts the texts of some columns, of which shrink has the characters that
// stay at least, and leaves out as many of the columns drop as it has to, the first one first. All others stay whole, even if they are wider than the
// screen.
func Fit(rows [][]string, width int, shrink map[int]int, drop []int) [][]string {
	if width == 0 || len(rows) == 0 {
		return rows
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	gone := 0
	kept := func(i int) bool { return !slices.Contains(drop[:gone], i) }
	total := func(least bool) int {
		sum := -2
		for i, n := range widths {
			if bound, ok := shrink[i]; ok && least {
				n = min(n, bound)
			}
			if kept(i) {
				sum += n + 2
			}
		}
		return sum
	}
	for gone < len(drop) && total(true) > width {
		gone++
	}
	for total(false) > width {
		widest := -1
		for i, n := range widths {
			if bound, ok := shrink[i]; ok && kept(i) && n > bound && (widest < 0 || n > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	fitted := make([][]string, len(rows))
	for r, row := range rows {
		for i, text := range row {
			if kept(i) {
				if runes := []rune(text); len(runes) > widths[i] {
					text = string(runes[:widths[i]-1]) + "…"
				}
				fitted[r] = append(fitted[r], text)
			}
		}
	}
	return fitted
}

// CSV prints rows as comma-separated values. A text that a spreadsheet would take for a formula begins with a single quote: rows are foreign.
func CSV(w io.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	for _, row := range rows {
		safe := slices.Clone(row)
		for i, text := range safe {
			if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
				safe[i] = "'" + text
			}
		}
		if err := out.Write(safe); err != nil {
			return fmt.Errorf("print CSV: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}
