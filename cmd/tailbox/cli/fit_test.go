package cli_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

// TestFit: on a narrow screen texts are cut, then columns go, in the order that was asked for; names that people copy are never cut.
func TestFit(t *testing.T) {
	t.Parallel()
	rows := [][]string{{"ID", "TYPE", "NEXT", "ERROR"}, {"5f0c7e0a-0000-4000-8000-000000000001", "order.placed.in.the.shop", "-", strings.Repeat("e", 60)}}
	for width, want := range map[int]string{
		0:   "ID TYPE NEXT ERROR",
		200: "ID TYPE NEXT ERROR",
		80:  "ID TYPE NEXT ERROR",
		60:  "ID TYPE",
		40:  "ID",
		10:  "ID", // it is whole all the same
	} {
		fitted := cli.Fit(rows, width, map[int]int{1: 12, 3: 12}, []int{2, 3, 1})
		if got := strings.Join(fitted[0], " "); got != want {
			t.Errorf("%d: columns %s, want %s", width, got, want)
		}
		if fitted[1][0] != rows[1][0] {
			t.Errorf("%d: the id is cut: %s", width, fitted[1][0])
		}
	}
	if rows[1][3] != strings.Repeat("e", 60) {
		t.Error("the rows that were given have changed")
	}
}

// TestFitOfAnything: whatever the rows are, no line is wider than the screen, unless columns that are neither cut nor left out are.
func TestFitOfAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		columns := 1 + r.IntN(8)
		rows := make([][]string, 1+r.IntN(4))
		for i := range rows {
			for range columns {
				rows[i] = append(rows[i], strings.Repeat("é", r.IntN(50)))
			}
		}
		all := r.Perm(columns)
		shrink, drop := map[int]int{}, slices.Clone(all[:r.IntN(columns)])
		for _, i := range all[:r.IntN(columns+1)] {
			shrink[i] = 1 + r.IntN(20)
		}
		width := r.IntN(150)
		var b bytes.Buffer
		if err := cli.Table(&b, cli.Fit(rows, width, shrink, drop)); err != nil {
			t.Fatal(err)
		}
		rest := 0 // what cannot give way
		for i := range columns {
			widest := 0
			for _, row := range rows {
				widest = max(widest, utf8.RuneCountInString(row[i]))
			}
			if least, ok := shrink[i]; ok {
				widest = min(widest, least)
			}
			if !slices.Contains(drop, i) {
				rest += widest + 2
			}
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(line) - 1; width > 0 && n > max(width, rest) {
				t.Fatalf("a line of %d on a screen of %d, where %d cannot give way:\n%s", n, width, rest, b.String())
			}
		}
	}
}

// TestCSV: cells hold anything, and none is a formula for a spreadsheet.
func TestCSV(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := cli.CSV(&b, [][]string{{"id", "error"}, {"1", "a \"b\",\nc"}, {"=1+1", "-2"}, {"@x", "+3"}, {"\t=1", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "id,error\n1,\"a \"\"b\"\",\nc\"\n'=1+1,'-2\n'@x,'+3\n'\t=1,\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
