package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/client"
	"github.com/tailbox/tailbox/internal/tail"
)

// A relay that is away is asked again after a pause that doubles.
const firstPause, mostPause = time.Second, 15 * time.Second

// NewTail is the command tail.
func NewTail() *cli.Command {
	var where Where
	var output cli.Output
	var payload bool
	filters := url.Values{}
	return &cli.Command{
		Name: "tail", About: "shows deliveries as they happen, from the API of a running relay",
		Long: "It shows each answer of a sink: time, sink, delivered or the class of the failure, type, group, id, and how long after the\n" +
			"commit it came. At most 100 a second come; it says how many were left out. If the relay is away it asks again. End it with Ctrl-C.",
		Example: "tailbox tail --server http://127.0.0.1:8480 --token-file ana.token --sink mail",
		Flags: func(fs *flag.FlagSet) {
			where.serverFlags(fs)
			for name, usage := range map[string]string{"sink": "only this sink, `NAME`", "type": "only this type, `NAME`", "group": "only this message group, `NAME`", "topic": "only this topic, `NAME`"} {
				fs.Func(name, usage, func(value string) error { filters.Set(name, value); return nil })
			}
			fs.BoolVar(&payload, "payload", false, "show the beginning of payloads; it needs the role auditor")
			output.Flag(fs)
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			relay, err := where.dial(sh)
			if err != nil {
				return err
			}
			if relay == nil {
				return cli.WrongUsage("tail: it asks a relay: name its address with --server, or $%s", serverEnv)
			}
			if payload {
				filters.Set("payload", "true")
			}
			return follow(ctx, sh, relay, filters, output.JSON)
		},
	}
}

// follow shows deliveries until ctx ends, which is how an operator ends it.
func follow(ctx context.Context, sh *cli.Shell, relay *client.Client, filters url.Values, asJSON bool) error {
	pause := firstPause
	for {
		err := relay.Tail(ctx, filters, func() { pause = firstPause }, func(one *tail.Attempt, raw json.RawMessage) error { return showAttempt(sh, one, raw, asJSON) })
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, client.ErrEnded) {
			return err
		}
		fmt.Fprintf(sh.Err, "tailbox: %v: asking again in %v; what happens meanwhile is not shown\n", err, pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}

// showAttempt prints a line.
func showAttempt(sh *cli.Shell, one *tail.Attempt, raw json.RawMessage, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(sh.Out, "%s\n", raw)
		return err
	}
	outcome, color := one.Outcome, cli.Green
	if one.Class != "" {
		outcome, color = one.Class, cli.Red
	}
	skipped := ""
	if one.Skipped > 0 {
		skipped = fmt.Sprintf("  (%d left out before)", one.Skipped)
	}
	text := fmt.Sprintf("%s  %s  %s  %s  %s  %s  %s%s", one.At.Local().Format("15:04:05.000"), cli.Cell(one.Sink, cli.MaxCell), sh.Paint(color, fmt.Sprintf("%-9s", outcome)), cli.Cell(one.Type, cli.MaxCell),
		cli.Cell(one.Group, cli.MaxCell), cli.Cell(one.ID, 0), time.Duration(one.Latency*float64(time.Second)).Round(time.Millisecond/10), skipped)
	if _, err := fmt.Fprintln(sh.Out, text); err != nil || one.Payload == "" {
		return err
	}
	_, err := fmt.Fprintln(sh.Out, "  "+cli.Cell(one.Payload, cli.MaxMessage))
	return err
}
