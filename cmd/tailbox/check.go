package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/tailbox/tailbox/sink"
)

// checkTimeout bounds what a sink's check may take.
const checkTimeout = 15 * time.Second

func newCheck() *command {
	var file string
	var offline bool
	return &command{
		name: "check", about: "tells everything that is wrong, at once, each with what cures it",
		long: "It looks at the configuration, the server's settings, privileges, tables, publication and slot, and at the sinks, and\n" +
			"says what a first start would send. It changes nothing. Exit code 0: all is well; 1: problems; 2: wrong configuration.",
		example: "tailbox check -c tailbox.yaml\ntailbox check --offline",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			fs.BoolVar(&offline, "offline", false, "only the configuration")
		},
		run: func(ctx context.Context, sh *shell, _ []string) error {
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			if offline {
				_, err := fmt.Fprintln(sh.out, "the configuration is right")
				return err
			}
			return check(ctx, sh, p)
		},
	}
}

// check looks at the database and the sinks.
func check(ctx context.Context, sh *shell, p *parts) error {
	problems := checkDatabase(ctx, sh, p)
	sinkProblems, err := checkSinks(ctx, p)
	if err != nil {
		return err
	}
	for _, s := range p.config.Sinks {
		for _, one := range sinkProblems[s.Name] {
			problems = append(problems, fmt.Errorf("sink %s: %w", s.Name, one))
		}
	}
	for _, one := range problems {
		fmt.Fprintf(sh.out, "problem: %v\n", one)
	}
	if len(problems) > 0 {
		fmt.Fprintf(sh.err, "tailbox: check: %s\n", count(len(problems), "problem", "problems"))
		return errReported
	}
	_, err = fmt.Fprintln(sh.out, "all is well")
	return err
}

// checkSinks makes all sinks and asks those that can tell.
func checkSinks(ctx context.Context, p *parts) (map[string][]error, error) {
	sinks, err := p.openSinks(ctx)
	if err != nil {
		return nil, err
	}
	found := askSinks(ctx, sinks)
	return found, closeSinks(ctx, sinks)
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
