// Package demo shows tailbox at work: a small shop writes to its outbox, one of two ends for the messages fails for a while and refuses one message, and
// an operator fixes that message. It uses the program as its users do, by its command line, and checks that no message was lost or reordered.
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailbox/tailbox/internal/pgserver"
)

const (
	// timeout bounds the demo without the download of Postgres.
	timeout = 2 * time.Minute
	// dropTimeout bounds the removal of the database.
	dropTimeout = 15 * time.Second
	// poll is how often the demo looks for what it waits for.
	poll = 50 * time.Millisecond
)

// Options of a demo.
type Options struct {
	// Kind of database, one of Kinds, and the URL of a server. Without a URL the demo starts a Postgres of its own.
	Kind, URL string
	// Stay keeps the shop and the relay running when the story is told, with the console open, until the context of Run ends.
	Stay bool
	// Out gets the story, Err what commands write to standard error, and Log the log of the relay.
	Out, Err, Log io.Writer
	// Tailbox runs a command line of the program until it ends, or ctx does.
	Tailbox func(ctx context.Context, out, err io.Writer, args ...string) error
}

// A demo is one telling of the story.
type demo struct {
	Options
	place    *place
	file     string // the configuration
	shop     *shop
	shipping *shipping
	ledger   *ledger
	step     int
	admin    string // the section of the configuration
	console  string // how to get into the console, if it is open
}

// Run tells the story, and removes everything that it made.
func Run(ctx context.Context, o Options) (err error) {
	began := time.Now()
	d := &demo{Options: o, shop: &shop{}, ledger: &ledger{receipts: newReceipts()}}
	d.say("A shop with an outbox table, a relay, and two ends for its messages: the shipping service (HTTP) and a ledger (lines of JSON).\n")
	d.chapter("A database")
	if d.place, err = openPlace(ctx, o.Kind, o.URL, func(text string) { d.line("%s", text) }); err != nil {
		return interrupted(ctx, err)
	}
	d.line("%s", d.place.what)
	// The relay is stopped and the shop closed before the database goes.
	err = d.tell(ctx, began)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTimeout)
	defer cancel()
	return interrupted(ctx, errors.Join(err, d.place.drop(ending)))
}

// interrupted replaces the error of an interrupted demo by a plain sentence.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("demo: stopped before its end; everything it made is removed")
	}
	return err
}

func (d *demo) tell(ctx context.Context, began time.Time) (err error) {
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("the demo did not end in time: run it with -v to see why"))
	defer cancel()
	dir, err := os.MkdirTemp("", "tailbox-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the configuration: %w", err)
	}
	d.file = filepath.Join(dir, "demo.yaml")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if d.shipping, err = startShipping(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.shipping.close()) }()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.shop.open(ctx, d.place); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.shop.close(ctx)) }()

	running, stop := context.WithCancel(outer)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := d.Tailbox(running, d.ledger, d.Log, "run", "-c", d.file)
		cancel()
		stop()
		ended <- err
	}()
	for _, scene := range []func(context.Context) error{d.routing, d.parking, d.recovery, d.deadLetter, d.proof} {
		if err = scene(ctx); err != nil {
			break
		}
	}
	if err == nil {
		d.say("\nAll of it was delivered, in order, in %.0f seconds. Next: tailbox init and tailbox run with a tailbox.yaml of your own.",
			time.Since(began).Seconds())
	}
	if err == nil && d.Stay {
		err = d.goOn(running)
	}
	stop()
	return errors.Join(<-ended, err)
}

// openConsole makes the section admin of the configuration.
func (d *demo) openConsole(ctx context.Context) error {
	if !d.Stay {
		d.admin = "{listen: off}"
		return nil
	}
	port, err := pgserver.FreePort(ctx)
	if err != nil {
		return err
	}
	token := rand.Text()
	d.admin = fmt.Sprintf(`{listen: "127.0.0.1:%d", token: %s}`, port, token)
	d.console = fmt.Sprintf("http://127.0.0.1:%d/ and log in with the token %s", port, token)
	return nil
}

// goOn lets the shop write an order's step each second, until ctx ends.
func (d *demo) goOn(ctx context.Context) error {
	d.say("\nThe console: open %s", d.console)
	d.line("the shop goes on, and makes the same mistake again: look at Live, and mend the dead letter under Failures")
	d.line("Ctrl-C ends the demo and removes all that it made")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := d.shop.step(ctx, n%orders+1, paid); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

const configuration = `pipeline: demo
source: {kind: %s, url: %q%s}
routes:
  - {match: {type: "order.*"}, to: [shipping, ledger], retry: {schedule: [500ms, 3s, 1s]}}
  - {to: [ledger]}
sinks:
  shipping: {kind: http, url: "%s", format: single}
  ledger: {kind: stdout}
admin: %s
`

// prepare writes the configuration, and makes the tables and the first checkpoint.
func (d *demo) prepare(ctx context.Context) error {
	schema := ""
	if d.place.schema != "" {
		schema = ", schema: " + d.place.schema
	}
	if err := d.openConsole(ctx); err != nil {
		return err
	}
	d.chapter("The configuration, and tailbox init")
	for line := range strings.Lines(fmt.Sprintf(configuration, d.place.kind, withoutPassword(d.place.url), schema, d.shipping.url, d.admin)) {
		d.line("  %s", strings.TrimSuffix(line, "\n"))
	}
	text := fmt.Sprintf(configuration, d.place.kind, d.place.url, schema, d.shipping.url, d.admin)
	if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	d.line("tailbox init")
	if err := d.command(ctx, "init"); err != nil {
		return err
	}
	return d.check(ctx)
}

// check returns what the server lacks, each with what fixes it. `tailbox check` fails if it finds anything, and has said so then.
func (d *demo) check(ctx context.Context) error {
	var found []struct{ Level, What, Fix string }
	err := d.list(ctx, &found, "check")
	for _, f := range found {
		if f.Level == "problem" {
			return fmt.Errorf("use the server of --url: %s: %s", f.What, f.Fix)
		}
	}
	return err
}

func (d *demo) routing(ctx context.Context) error {
	d.chapter("Routing, while shipping is down")
	if err := d.shop.trade(ctx, placed); err != nil {
		return err
	}
	d.line("the shop took %d orders; each transaction changed a row of orders and wrote its messages: order.placed, customer.welcomed", orders)
	if err := d.ledger.wait(ctx, len(d.shop.committed)); err != nil {
		return err
	}
	d.line("the ledger has all %d; order.* goes to shipping as well, but shipping answers 503", len(d.shop.committed))
	return nil
}

func (d *demo) parking(ctx context.Context) error {
	d.chapter("Parking")
	if err := d.shop.trade(ctx, paid, packed); err != nil {
		return err
	}
	if err := d.ledger.wait(ctx, len(d.shop.committed)); err != nil {
		return err
	}
	d.line("the shop went on (order.paid, order.packed), and the ledger has all %d messages: one end that fails does not hold up the other", len(d.shop.committed))
	if err := d.until(ctx, "parked deliveries", func() (bool, error) {
		parked, err := d.parked(ctx)
		groups := map[string]bool{}
		for _, p := range parked {
			groups[p.Group] = true
		}
		return len(groups) == orders, err
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
	const want = orders*3 - 2
	if err := d.shipping.wait(ctx, want); err != nil {
		return err
	}
	d.line("shipping is up again: %d parked deliveries went out, each group in the order of its commits", want)
	return nil
}

func (d *demo) deadLetter(ctx context.Context) error {
	d.chapter("A dead letter")
	var dead string
	if err := d.until(ctx, "a dead letter", func() (bool, error) {
		parked, err := d.parked(ctx)
		for _, p := range parked {
			if p.State == "dead" {
				dead = p.ID
			}
		}
		return dead != "", err
	}); err != nil {
		return err
	}
	if err := d.shop.trade(ctx, shipped); err != nil {
		return err
	}
	if err := d.shipping.wait(ctx, orders*4-3); err != nil {
		return err
	}
	d.line("shipping refused one message for good (422): it is dead, its group waits behind it, and all other orders are shipped: tailbox dead list")
	if err := d.command(ctx, "dead", "list"); err != nil {
		return err
	}
	payload := fmt.Sprintf(`{"order": "order-%d", "amount": %d}`, badOrder, goodAmount)
	d.line("an operator fixes it: tailbox dead edit %s --payload '%s'", dead, payload)
	if err := d.command(ctx, "dead", "edit", dead, "--payload", payload); err != nil {
		return err
	}
	if err := d.shipping.wait(ctx, orders*4); err != nil {
		return err
	}
	d.line("it was delivered, and what had waited behind it after it")
	return nil
}

// A parked is a parked delivery, as `tailbox dead list -o json` prints it.
type parked struct{ ID, Group, State string }

// parked lists all that is parked.
func (d *demo) parked(ctx context.Context) (found []parked, err error) {
	err = d.list(ctx, &found, "dead", "list", "--state", "dead,retrying,waiting", "--limit", "0")
	return found, err
}

// list reads the JSON that a command prints.
func (d *demo) list(ctx context.Context, into any, args ...string) error {
	var printed bytes.Buffer
	err := d.Tailbox(ctx, &printed, io.Discard, append(args, "-o", "json", "-c", d.file)...)
	if printed.Len() == 0 {
		return err
	}
	return errors.Join(err, json.Unmarshal(printed.Bytes(), into))
}

// command runs a command, and shows what it prints.
func (d *demo) command(ctx context.Context, args ...string) error {
	var printed bytes.Buffer
	err := d.Tailbox(ctx, &printed, d.Err, append(args, "-c", d.file)...)
	for line := range strings.Lines(printed.String()) {
		d.line("  %s", strings.TrimSuffix(line, "\n"))
	}
	return err
}

// until asks again and again until done.
func (d *demo) until(ctx context.Context, what string, done func() (bool, error)) error {
	tick := time.NewTicker(poll)
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

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

func (d *demo) chapter(title string) {
	d.step++
	d.say("\n%d. %s", d.step, title)
}

func (d *demo) line(format string, args ...any) { d.say("   "+format, args...) }
