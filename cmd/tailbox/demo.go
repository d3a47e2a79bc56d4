package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/source/store"
)

const (
	// demoTimeout bounds the demo without the download.
	demoTimeout = 2 * time.Minute
	// demoPoll is how often the database is asked for what the demo waits for.
	demoPoll = 50 * time.Millisecond
)

func newDemo() *command {
	var kind, url string
	var verbose bool
	return &command{
		name: "demo", about: "shows everything in less than a minute, with no config and no server",
		long: "It runs a Postgres of its own (downloaded once, 15 MB, where none is installed), a small shop that writes to its outbox,\n" +
			"and two ends for the messages, one of which fails for a while and refuses one message. It shows routing, order, parking,\n" +
			"retry, a dead letter, edit and replay, checks that nothing was lost or reordered, and removes all it made.",
		example: "tailbox demo\ntailbox demo --url postgres://postgres@localhost/postgres\ntailbox demo --source mariadb --url mysql://root@localhost\n" +
			"tailbox demo --source mongodb --url 'mongodb://localhost/?replicaSet=rs0'",
		flags: func(fs *flag.FlagSet) {
			fs.StringVar(&kind, "source", "", "`KIND` of database: postgres, mysql, mariadb or mongodb (default as the URL says, else postgres)")
			fs.StringVar(&url, "url", "", "`URL` of a server to use instead of a Postgres of the demo's own; it makes and drops a database there")
			fs.BoolVar(&verbose, "v", false, "show the relay's log as well")
		},
		run: func(ctx context.Context, sh *shell, _ []string) error {
			switch {
			case kind == "":
				kind = demoKind(url)
			case !slices.Contains(demoKinds(), kind):
				return wrongUsage("demo: there is no source %q: choose %s", kind, strings.Join(demoKinds(), ", "))
			case kind != "postgres" && url == "":
				return wrongUsage("demo: --source %s needs a server that runs: name it with --url; only a Postgres can be the demo's own", kind)
			}
			if err := config.UserInfo(url); err != nil {
				return wrongUsage("demo: --url %w", err)
			}
			return runDemo(ctx, sh, kind, url, verbose)
		},
	}
}

// A demo is one telling of the story.
type demo struct {
	sh       *shell
	log      *slog.Logger
	database *demoDatabase
	file     string // the configuration, for the commands that the story shows
	parts    *parts
	shop     *demoShop
	shipping *demoShipping
	ledger   *demoLedger
	step     int
}

func runDemo(ctx context.Context, sh *shell, kind, url string, verbose bool) (err error) {
	began := time.Now()
	d := &demo{sh: sh, log: slog.New(slog.DiscardHandler), shop: &demoShop{}, ledger: &demoLedger{demoLog: newDemoLog()}}
	if verbose {
		d.log = newLogger(sh.err, config.Log{})
	}
	d.say("A shop with an outbox table, a relay, and two ends for its messages: the shipping service (HTTP) and a ledger (lines of JSON).\n")
	d.chapter("A database")
	if d.database, err = openDemoDatabase(ctx, kind, url, func(text string) { d.line("%s", text) }); err != nil {
		return asked(ctx, err)
	}
	d.line("%s", d.database.what)
	// The relay is stopped and the shop closed before the database goes.
	err = d.tell(ctx, began)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	return asked(ctx, errors.Join(err, d.database.close(ending)))
}

// asked turns what an interrupted demo ended with into a plain word.
func asked(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("demo: stopped before its end; everything it made is removed")
	}
	return err
}

// tell tells the story.
func (d *demo) tell(ctx context.Context, began time.Time) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTimeout, errors.New("the demo did not end in time: run it with -v to see why"))
	defer cancel()
	dir, err := os.MkdirTemp("", "tailbox-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the configuration: %w", err)
	}
	d.file = filepath.Join(dir, "demo.yaml")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if d.shipping, err = startDemoShipping(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.shipping.close()) }()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.shop.open(ctx, d.database); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.shop.close(ctx)) }()

	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := runRelay(running, d.sh, d.parts, d.log)
		cancel()
		ended <- err
	}()
	for _, scene := range []func(context.Context) error{d.routing, d.parking, d.recovery, d.deadLetter, d.proof} {
		if err = scene(ctx); err != nil {
			break
		}
	}
	stop()
	err = errors.Join(<-ended, err)
	if err == nil {
		d.say("\nAll of it was delivered, in order, in %.0f seconds. Next: tailbox init and tailbox run with a tailbox.yaml of your own.",
			time.Since(began).Seconds())
	}
	return err
}

// prepare makes the tables and the first checkpoint, as init does.
func (d *demo) prepare(ctx context.Context) error {
	schema := ""
	if d.database.schema != "" {
		schema = ", schema: " + d.database.schema
	}
	text := fmt.Sprintf(demoConfig, d.database.kind, d.database.url, schema, d.shipping.url)
	d.chapter("The configuration, and tailbox init")
	for line := range strings.Lines(fmt.Sprintf(demoConfig, d.database.kind, withoutPassword(d.database.url), schema, d.shipping.url)) {
		d.line("  %s", strings.TrimSuffix(line, "\n"))
	}
	c, file, err := config.Read("demo.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	d.parts = &parts{config: c}
	d.parts.readSinks(d.ledger)
	if err := file.Err(); err != nil {
		return err
	}
	d.line("tailbox init")
	if err := d.command(ctx, "init"); err != nil {
		return err
	}
	return d.check(ctx)
}

// check tells what the server lacks, each with its cure.
func (d *demo) check(ctx context.Context) error {
	found, err := d.parts.database(d.log, nil).check(ctx)
	for _, f := range found {
		if f.Level == store.Problem {
			err = errors.Join(err, fmt.Errorf("use the server of --url: %s: %s", f.What, f.Cure))
		}
	}
	return err
}

const demoConfig = `pipeline: demo
source: {kind: %s, url: %q%s}
routes:
  - {match: {type: "order.*"}, to: [shipping, ledger], retry: {schedule: [500ms, 3s, 1s]}}
  - {to: [ledger]}
sinks:
  shipping: {kind: http, url: "%s", format: single}
  ledger: {kind: stdout}
admin: {listen: off}
`

func (d *demo) routing(ctx context.Context) error {
	d.chapter("Routing, while shipping is down")
	if err := d.shop.trade(ctx, demoPlaced); err != nil {
		return err
	}
	d.line("the shop took %d orders; each transaction changed a row of orders and wrote its messages: order.placed, customer.welcomed", demoOrders)
	if err := d.ledger.wait(ctx, len(d.shop.committed)); err != nil {
		return err
	}
	d.line("the ledger has all %d; order.* goes to shipping as well, but shipping answers 503", len(d.shop.committed))
	return nil
}

func (d *demo) parking(ctx context.Context) error {
	d.chapter("Parking")
	if err := d.shop.trade(ctx, demoPaid, demoPacked); err != nil {
		return err
	}
	if err := d.ledger.wait(ctx, len(d.shop.committed)); err != nil {
		return err
	}
	d.line("the shop went on (order.paid, order.packed), and the ledger has all %d messages: one end that fails does not hold up the other", len(d.shop.committed))
	var groups int
	if err := d.until(ctx, "parked deliveries", func() (bool, error) {
		parked, err := d.parked(ctx)
		groups = len(demoGroups(parked))
		return groups == demoOrders, err
	}); err != nil {
		return err
	}
	d.line("shipping's deliveries wait in the table tailbox_parked, in order, and the log is free: tailbox group list")
	return d.command(ctx, "group", "list")
}

func (d *demo) recovery(ctx context.Context) error {
	d.chapter("Retry")
	d.shipping.start()
	// All three of every order, but of the bad one only what comes before it.
	want := demoOrders*3 - 2
	if err := d.shipping.wait(ctx, want); err != nil {
		return err
	}
	d.line("shipping is up again: %s went out, each group in the order of its commits", count(want, "parked delivery", "parked deliveries"))
	return nil
}

func (d *demo) deadLetter(ctx context.Context) error {
	d.chapter("A dead letter")
	var dead *store.Listed
	if err := d.until(ctx, "a dead letter", func() (bool, error) {
		parked, err := d.parked(ctx)
		for i := range parked {
			if parked[i].State == checkpoint.StateDead {
				dead = &parked[i]
			}
		}
		return dead != nil, err
	}); err != nil {
		return err
	}
	if err := d.shop.trade(ctx, demoShipped); err != nil {
		return err
	}
	if err := d.shipping.wait(ctx, demoOrders*4-3); err != nil {
		return err
	}
	d.line("shipping refused one message for good (422): it is dead, its group waits behind it, and all other orders are shipped: tailbox dead list")
	if err := d.command(ctx, "dead", "list"); err != nil {
		return err
	}
	payload := fmt.Sprintf(`{"order": "order-%d", "amount": %d}`, demoBadOrder, demoGoodAmount)
	d.line("an operator mends it: tailbox dead edit %s --payload '%s'", dead.Message.ID, payload)
	if err := d.command(ctx, "dead", "edit", dead.Message.ID, "--payload", payload); err != nil {
		return err
	}
	if err := d.shipping.wait(ctx, demoOrders*4); err != nil {
		return err
	}
	d.line("it was delivered, and what had waited behind it after it")
	return nil
}

// parked lists all that is parked.
func (d *demo) parked(ctx context.Context) ([]store.Listed, error) {
	found, _, err := d.parts.database(d.log, nil).parked(ctx, checkpoint.Selection{States: anyState()}, 0)
	return found, err
}

// command runs a command of tailbox with the demo's configuration, and shows what it prints.
func (d *demo) command(ctx context.Context, args ...string) error {
	var printed bytes.Buffer
	sh := *d.sh
	sh.out, sh.terminal = &printed, false
	err := root().execute(ctx, &sh, "tailbox", append(args, "-c", d.file))
	for line := range strings.Lines(printed.String()) {
		d.line("  %s", strings.TrimSuffix(line, "\n"))
	}
	return err
}

// demoGroups lists the groups of deliveries.
func demoGroups(parked []store.Listed) map[string]bool {
	groups := map[string]bool{}
	for i := range parked {
		groups[parked[i].Message.Group] = true
	}
	return groups
}

// until asks again and again until done.
func (d *demo) until(ctx context.Context, what string, done func() (bool, error)) error {
	tick := time.NewTicker(demoPoll)
	defer tick.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.sh.out, format+"\n", args...) }

func (d *demo) chapter(title string) {
	d.step++
	d.say("\n%d. %s", d.step, title)
}

func (d *demo) line(format string, args ...any) { d.say("   "+format, args...) }
