package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/relay"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/operate"
)

// checkTimeout bounds what a sink's check may take.
const checkTimeout = 15 * time.Second

func newCheck() *cli.Command {
	var file string
	var offline, sendAlert bool
	var output cli.Output
	return &cli.Command{
		Name: "check", About: "tells everything that is wrong, at once, each with its fix",
		Long: "It looks at the configuration, the server's settings, privileges, tables, publication and slot, and at the sinks, and\n" +
			"says what a first start would send. It changes nothing. Exit code 0: all is well; 1: problems; 2: wrong configuration.",
		Example: "tailbox check -c tailbox.yaml\ntailbox check --offline\ntailbox check --send-alert",
		Flags: func(fs *flag.FlagSet) {
			pipeline.ConfigFlag(fs, &file)
			fs.BoolVar(&offline, "offline", false, "only the configuration")
			fs.BoolVar(&sendAlert, "send-alert", false, "also send a test through each sink of alerts.to")
			output.Flag(fs)
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			if offline && sendAlert {
				return cli.WrongUsage("check: --offline looks at the configuration alone, and --send-alert sends: leave one of the two out")
			}
			if _, err := readTracing(sh); err != nil {
				return err
			}
			if offline && output.JSON {
				return cli.PrintJSON(sh.Out, []check.Finding{})
			}
			if offline {
				_, err := fmt.Fprintln(sh.Out, "the configuration is right")
				return err
			}
			return runCheck(ctx, sh, p, sendAlert, output.JSON)
		},
	}
}

// checkGap tells what the next start does where the log cannot be read on from the checkpoint.
func checkGap(ctx context.Context, db operate.Database) []check.Finding {
	gap, err := db.Gap(ctx)
	if err != nil || gap == nil || gap.Unswept {
		return nil // what keeps it from being looked for, the database's own check tells
	}
	f := check.Finding{Level: check.Warning, What: "the log cannot be read on from the checkpoint: " + gap.Why,
		Fix: "run tailbox run: it takes a new position, and sweeps the tables for what is pending"}
	if len(gap.Unjudged) > 0 {
		f.Level = check.Problem
		f.Fix = "look for what the gap held, then run tailbox accept-gap --why …: nothing shows which messages of " + strings.Join(gap.Unjudged, ", ") + " were delivered"
	}
	return []check.Finding{f}
}

// checkParked finds deliveries that are parked for sinks, or from tables, which the configuration does not have: no relay goes on with those.
func checkParked(ctx context.Context, p *pipeline.Pipeline, db operate.Database) []check.Finding {
	r, err := db.Status(ctx)
	if err != nil {
		return nil // the database's own check tells
	}
	var parked []string
	var tables []string
	for _, s := range r.Sinks {
		if s.Retrying+s.Waiting+s.Dead > 0 {
			parked = append(parked, s.Sink)
		}
		for table, n := range s.Tables {
			if s.Sink != "" && n > 0 && !slices.Contains(tables, table) {
				tables = append(tables, table)
			}
		}
	}
	var found []check.Finding
	add := func(what, fix string) {
		if what != "" {
			found = append(found, check.Finding{Level: check.Problem, What: what, Fix: fix})
		}
	}
	add(relay.ParkedElsewhere(parked, func(sink string) bool {
		return slices.ContainsFunc(p.Config.Sinks, func(s config.Sink) bool { return s.Name == sink })
	}))
	add(relay.ParkedOutside(tables, p.Config.Router.Knows))
	return found
}

// checkToken finds a token that can be guessed: those of admin.tokens are refused if they are short, this one never was.
func checkToken(a *config.Admin) []check.Finding {
	if a.Token == "" || len(a.Token) >= config.LeastToken {
		return nil
	}
	return []check.Finding{{Level: check.Warning, What: fmt.Sprintf("admin.token has fewer than %d characters, so that it can be guessed", config.LeastToken),
		Fix: "set it to the output of openssl rand -hex 24, or give each person a token of admin.tokens"}}
}

// checkDatabase looks at the database, but for what rows hold. whole: nothing kept it from looking at everything.
func checkDatabase(ctx context.Context, p *pipeline.Pipeline, db operate.Database) (findings []check.Finding, whole bool) {
	findings, err := db.Check(ctx)
	if err != nil {
		// What was found before may be the cause, so it is told as well.
		findings = append(findings, check.Finding{Level: check.Problem, What: err.Error()})
	}
	return append(append(findings, checkGap(ctx, db)...), checkParked(ctx, p, db)...), err == nil
}

// runCheck looks at the database and the sinks.
func runCheck(ctx context.Context, sh *cli.Shell, p *pipeline.Pipeline, sendAlert, asJSON bool) error {
	db := p.Database(sh.Log(), nil)
	found, whole := checkDatabase(ctx, p, db)
	findings := slices.Concat(checkToken(&p.Config.Admin), found, checkExamples(ctx, p, db))
	sinkProblems, err := checkSinks(ctx, p)
	if err != nil {
		findings = append(findings, check.Finding{Level: check.Problem, What: err.Error()})
	}
	for _, s := range p.Config.Sinks {
		for _, one := range sinkProblems[s.Name] {
			findings = append(findings, check.Finding{Level: check.Problem, What: fmt.Sprintf("sink %s: %s", s.Name, p.Hide(one.Error()))})
		}
	}
	if sendAlert {
		tests, err := testAlerts(ctx, p)
		if err != nil {
			tests = append(tests, check.Finding{Level: check.Problem, What: err.Error()})
		}
		findings = append(findings, tests...)
	}
	for i := range findings {
		findings[i].What = beforeStart(findings[i].What)
	}
	if asJSON {
		err = cli.PrintJSON(sh.Out, append([]check.Finding{}, findings...)) // none is [] and not null
	} else {
		_, err = io.WriteString(sh.Out, findingsText(sh.Paint, findings)+lookedAt(p.Config, whole, sinkProblems))
	}
	if err != nil {
		return err
	}
	problems := 0
	for _, f := range findings {
		if f.Level == check.Problem {
			problems++
		}
	}
	if problems > 0 {
		fmt.Fprintf(sh.Err, "tailbox: check: %s\n", cli.Count(problems, "problem", "problems"))
		return cli.ErrReported
	}
	return nil
}

// beforeStart is the text of an error that would stop a relay, where none runs.
func beforeStart(text string) string {
	stop := source.ErrStop.Error()
	return strings.ReplaceAll(strings.ReplaceAll(text, ": "+stop, ""), stop+": ", "")
}

// lookedAt says what was looked at, so that nobody takes silence for more than it is. whole: nothing kept the database from being looked at;
// sinks has those that could be asked.
func lookedAt(c *config.Config, whole bool, sinks map[string][]error) string {
	var tables, asked, silent []string
	for _, t := range c.Source.Tables {
		tables = append(tables, strings.TrimPrefix(t.String(), "."))
	}
	for _, s := range c.Sinks {
		if _, ok := sinks[s.Name]; ok {
			asked = append(asked, s.Name)
		} else {
			silent = append(silent, s.Name)
		}
	}
	text := "looked at: the configuration"
	if whole {
		text += fmt.Sprintf("; settings, rights and log of the server (%s), and what is parked; tables: %s", c.Source.Kind, strings.Join(tables, ", "))
	}
	if len(asked) > 0 {
		text += "; sinks: " + strings.Join(asked, ", ")
	}
	text += "\n"
	if !whole {
		text += "not looked at: what of the database comes after the problem above\n"
	}
	if len(silent) > 0 {
		text += "not looked at: sinks that tell nothing before they get a message: " + strings.Join(silent, ", ") + "\n"
	}
	return text
}

// findingsText tells the worst first, each with what fixes it.
func findingsText(paint func(cli.Color, string) string, findings []check.Finding) string {
	var b strings.Builder
	well := true
	for _, l := range []struct {
		level check.Level
		color cli.Color
	}{{check.Problem, cli.Red}, {check.Warning, cli.Yellow}, {check.Info, cli.Blue}} {
		for _, f := range findings {
			if f.Level != l.level {
				continue
			}
			well = well && l.level == check.Info
			fmt.Fprintf(&b, "%s %s\n", paint(l.color, fmt.Sprintf("%-8s", l.level+":")), f.What)
			if f.Fix != "" {
				fmt.Fprintf(&b, "%-8s %s\n", "  fix:", f.Fix)
			}
		}
	}
	if well {
		b.WriteString(paint(cli.Green, "all is well") + "\n")
	}
	return b.String()
}

// checkSinks makes all sinks and asks those that can tell.
func checkSinks(ctx context.Context, p *pipeline.Pipeline) (map[string][]error, error) {
	sinks, err := p.OpenSinks(ctx)
	if err != nil {
		return nil, err
	}
	found := askSinks(ctx, sinks)
	return found, pipeline.CloseSinks(ctx, sinks)
}

// askSinks asks all sinks at once what is wrong with them.
func askSinks(ctx context.Context, sinks map[string]sink.Sink) map[string][]error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found := map[string][]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, s := range sinks {
		checker, ok := s.(sink.Checker)
		if !ok {
			continue
		}
		wg.Go(func() {
			problems := checker.Check(ctx)
			mu.Lock()
			defer mu.Unlock()
			found[name] = problems
		})
	}
	wg.Wait()
	return found
}
