package verbs

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source/store/view"
)

// NewAudit is the command audit.
func NewAudit() *cli.Command {
	var where Where
	var limit int
	var output cli.Output
	return &cli.Command{
		Name: "audit", Args: "[ID]", About: "lists what operators asked for, the newest first: who, when, why, and what came of it",
		Long: "With the ID of a request it shows that one, and what it selected. BY is the name of the API's token, or the login by\n" +
			"which the database knows who asked. Rows of the verb feedback count failures of feedback statements.",
		Example: "tailbox audit\ntailbox audit 42\ntailbox audit --limit 1000 -o csv",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			fs.IntVar(&limit, "limit", listLimit, "at most `N` requests")
			output.FlagOf(fs, "text", "json", "csv")
		},
		Run: func(ctx context.Context, sh *cli.Shell, ids []string) error {
			var id int64
			switch {
			case len(ids) > 1:
				return cli.WrongUsage("audit: name one request")
			case limit < 1:
				return cli.WrongUsage("audit: --limit %d: must be at least 1", limit)
			case len(ids) == 1:
				var err error
				if id, err = strconv.ParseInt(ids[0], 10, 64); err != nil || id < 1 {
					return cli.WrongUsage("audit %q: must be the id of a request, a number that tailbox audit lists", ids[0])
				}
			}
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			before, whole := int64(0), id > 0
			if whole {
				before, limit = id+1, 1
			}
			list, err := t.Asked(ctx, before, limit, whole)
			if err != nil {
				return err
			}
			if whole && (len(list) == 0 || list[0].ID != id) {
				return fmt.Errorf("audit %d: the pipeline has no request with this id: see tailbox audit", id)
			}
			views := make([]view.Asked, len(list))
			for i := range list {
				views[i] = view.OfAsked(&list[i])
			}
			return printAsked(sh, output.Format, views, whole)
		},
	}
}

// printAsked prints requests. whole: there is one, and all of it is wanted.
func printAsked(sh *cli.Shell, format string, list []view.Asked, whole bool) error {
	switch {
	case format == "json" && whole:
		return cli.PrintJSON(sh.Out, list[0])
	case format == "json":
		return cli.PrintJSON(sh.Out, list)
	case format == "csv":
		rows := [][]string{{"id", "requested_at", "by", "verb", "why", "done_at", "changed", "refused", "result"}}
		for i := range list {
			a := &list[i]
			rows = append(rows, []string{fmt.Sprint(a.ID), clock(&a.RequestedAt), a.By, a.Verb, a.Why, clock(a.DoneAt), fmt.Sprint(a.Changed), fmt.Sprint(a.Refused), outcome(a)})
		}
		return cli.CSV(sh.Out, rows)
	case whole:
		return printRequest(sh.Out, &list[0])
	case len(list) == 0:
		_, err := fmt.Fprintln(sh.Out, "nobody has asked for anything")
		return err
	}
	rows := [][]string{{"ID", "ASKED", "BY", "VERB", "WHY", "RESULT"}}
	for i := range list {
		a := &list[i]
		rows = append(rows, []string{fmt.Sprint(a.ID), clock(&a.RequestedAt), cli.Cell(a.By, cli.MaxCell), a.Verb, cli.Cell(a.Why, cli.MaxCell), cli.Cell(outcome(a), cli.MaxMessage)})
	}
	const why, result = 4, 5
	return cli.Table(sh.Out, cli.Fit(rows, sh.Width, map[int]int{why: 12, result: 12}, []int{why}))
}

// printRequest prints one request, with its selection.
func printRequest(w io.Writer, a *view.Asked) error {
	rows := [][]string{{"id", fmt.Sprint(a.ID)}, {"verb", a.Verb}, {"by", a.By}, {"asked", clock(&a.RequestedAt)}, {"done", clock(a.DoneAt)}, {"why", a.Why}, {"result", outcome(a)}}
	for i := range rows {
		rows[i][1] = cli.Cell(rows[i][1], 0)
	}
	if err := cli.Table(w, rows); err != nil {
		return err
	}
	var selected bytes.Buffer
	if err := json.Indent(&selected, a.Selection, "", "  "); err != nil {
		return nil // somebody wrote it by hand, and it is no JSON
	}
	_, err := fmt.Fprintf(w, "selection:\n%s\n", harmless(selected.String()))
	return err
}

// outcome tells what came of a request.
func outcome(a *view.Asked) string {
	text := ""
	switch {
	case a.Error != "":
		text = "failed: " + a.Error
	case a.DoneAt == nil && a.Changed == 0 && a.Refused == 0:
		return "not carried out yet"
	default:
		text = fmt.Sprintf("%d changed", a.Changed)
		if a.DoneAt == nil {
			text = "not done yet, " + text
		}
	}
	if a.Refused > 0 {
		text += fmt.Sprintf(", %d left as they were: %s", a.Refused, a.RefusedWhy)
	}
	if a.Note != "" {
		text += "; " + a.Note
	}
	if a.NewID != "" {
		text += "; new id " + a.NewID
	}
	return text
}

// clock is a time in UTC; "" for none.
func clock(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
