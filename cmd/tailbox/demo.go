package main

import (
	"context"
	"flag"
	"io"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/internal/demo"
)

func newDemo() *cli.Command {
	var kind, url string
	var stay, verbose bool
	return &cli.Command{
		Name: "demo", About: "shows everything in less than a minute, with no config and no server",
		Long: "It runs a Postgres of its own (downloaded once, 15 MB, if none is installed), a small shop that writes to its outbox,\n" +
			"and two ends for the messages, one of which fails for a while and refuses one message. It shows routing, order, parking,\n" +
			"retry, a dead letter, edit and replay, checks that nothing was lost or reordered, and removes all it made.\n" +
			"With --stay the shop and the relay then go on, and you can open the console in the browser.",
		Example: "tailbox demo\ntailbox demo --stay\ntailbox demo --url postgres://postgres@localhost/postgres\ntailbox demo --source mariadb --url mysql://root@localhost\n" +
			"tailbox demo --source mongodb --url 'mongodb://localhost/?replicaSet=rs0'",
		Flags: func(fs *flag.FlagSet) {
			fs.StringVar(&kind, "source", "", "`KIND` of database: postgres, mysql, mariadb or mongodb (default as the URL says, else postgres)")
			fs.StringVar(&url, "url", "", "`URL` of a server to use instead of a Postgres of the demo's own; it makes and drops a database there")
			fs.BoolVar(&stay, "stay", false, "keep the shop, the relay and its console running until Ctrl-C")
			fs.BoolVar(&verbose, "v", false, "show the relay's log as well")
		},
		Run: func(ctx context.Context, sh *cli.Shell, _ []string) error {
			switch {
			case kind == "":
				kind = demo.KindOf(url)
			case !slices.Contains(demo.Kinds(), kind):
				return cli.WrongUsage("demo: there is no source %q: choose %s", kind, strings.Join(demo.Kinds(), ", "))
			case kind != "postgres" && url == "":
				return cli.WrongUsage("demo: --source %s needs a server that runs: name it with --url; only a Postgres can be the demo's own", kind)
			}
			if err := config.UserInfo(url); err != nil {
				return cli.WrongUsage("demo: --url %w", err)
			}
			o := demo.Options{Kind: kind, URL: url, Stay: stay, Out: sh.Out, Err: sh.Err, Log: io.Discard}
			if verbose {
				o.Log = sh.Err
			}
			o.Tailbox = func(ctx context.Context, out, err io.Writer, args ...string) error {
				inner := *sh
				inner.Out, inner.Err, inner.Terminal = out, err, false
				return root().Execute(ctx, &inner, "tailbox", args)
			}
			return demo.Run(ctx, o)
		},
	}
}
