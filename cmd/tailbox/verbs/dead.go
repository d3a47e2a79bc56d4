package verbs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/view"
)

// listLimit is how many deliveries are listed where no limit is given.
const listLimit = 100

// NewDead is the command dead.
func NewDead() *cli.Command {
	return &cli.Command{
		Name: "dead", About: "lists, shows, replays, edits and drops dead letters",
		Long: "A delivery is dead when its attempts are spent or its sink refused it for good. It stays until an operator decides.\n" +
			"What is done is written to tailbox_request, and the relay carries it out; without a running relay it is done at once.\n" +
			"An ID that messages of several outbox tables have is refused by replay, edit and drop until --table names the one that is meant.",
		Example: "tailbox dead list\ntailbox dead replay --sink mail --all",
		Sub:     []*cli.Command{newDeadList(), newDeadSummary(), newDeadShow(), newDeadReplay(), newDeadEdit(), newDeadDrop()},
	}
}

func newDeadList() *cli.Command {
	var where Where
	var output cli.Output
	var s selector
	var newest bool
	var after moment
	return &cli.Command{
		Name: "list", Args: "[ID…]", About: "lists dead deliveries, or with --state those that wait",
		Long: "On a terminal it leaves out columns and cuts errors until lines fit; -o wide shows everything. AGE is the time since\n" +
			"tailbox stored the delivery, which --since is about, too; with --newest, --since is about when it died.",
		Example: "tailbox dead list --sink mail --reason 'permanent'\ntailbox dead list --since 24h -o csv",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			s.flags(fs, listLimit)
			fs.BoolVar(&newest, "newest", false, "the one that died last first")
			after.flag(fs, "since", "only deliveries that were stored since `TIME`: 30m, 24h, 7d, 2026-01-31 or 2026-01-31T08:00:00Z")
			output.FlagOf(fs, listFormats()...)
		},
		Run: func(ctx context.Context, sh *cli.Shell, ids []string) error {
			sel, err := s.selection(ids)
			if err != nil {
				return err
			}
			if newest && !operate.OnlyDead(sel.States) {
				return cli.WrongUsage("dead list: --newest is for dead deliveries alone: leave out --state %s, or --newest", s.state)
			}
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			if err := s.sink.known(ctx, t, "dead list"); err != nil {
				return err
			}
			if sel.Table, err = tableNamed(ctx, t, "dead list", s.table); err != nil {
				return err
			}
			sel.Limit = 0 // it bounds the list, which looks one further
			var found []store.Listed
			var more bool
			if newest {
				found, more, err = t.AllNewest(ctx, sel, operate.Span{Since: after.at}, s.limit)
			} else {
				found, more, err = t.ParkedSince(ctx, sel, after.at, s.limit)
			}
			if err != nil {
				return err
			}
			return listParked(sh, &output, found, more)
		},
	}
}

func newDeadShow() *cli.Command {
	var where Where
	var table string
	var at sinkFlag
	var output cli.Output
	return &cli.Command{
		Name: "show", Args: "ID…", About: "shows deliveries with their payload, headers and error", Example: "tailbox dead show 5f0c7e0a-…",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			at.flag(fs, "only the delivery to this sink, `NAME`")
			tableFlag(fs, &table)
			output.Flag(fs)
		},
		Run: func(ctx context.Context, sh *cli.Shell, ids []string) error {
			if len(ids) == 0 {
				return cli.WrongUsage("dead show: name the messages by their IDs, as tailbox dead list tells them")
			}
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			if table, err = at.knownWith(ctx, t, "dead show", table); err != nil {
				return err
			}
			found, more, err := t.Whole(ctx, at.in(checkpoint.Selection{IDs: ids, Table: table, States: anyState()}))
			if err != nil {
				return err
			}
			switch {
			case output.JSON:
				err = cli.PrintJSON(sh.Out, view.OfMessages(found))
			case len(found) > 0:
				err = printDetails(sh.Out, found)
			}
			if more && err == nil {
				return errors.New("dead show: the payloads are too large to be shown at once: name fewer IDs, or say --sink")
			}
			if missing := notFound(ids, found); len(missing) > 0 && err == nil {
				err = fmt.Errorf("show %s: nothing is parked under that ID: see tailbox dead list --state dead,retrying,waiting", strings.Join(missing, ", "))
			}
			return err
		},
	}
}

// notFound lists those of the ids that no delivery has, neither as its row's nor as the one that an edit gave it.
func notFound(ids []string, found []store.Listed) []string {
	have := map[string]bool{}
	for i := range found {
		have[found[i].Message.ID], have[found[i].RowID()] = true, true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return have[id] })
}

// A deadVerb is replay or drop: what both have in common.
type deadVerb struct {
	where                   Where
	why                     string
	selector                selector
	dryRun, noWait, reorder bool
}

func (d *deadVerb) flags(fs *flag.FlagSet) {
	d.where.Flags(fs)
	d.selector.flags(fs, 0)
	fs.BoolVar(&d.selector.all, "all", false, "everything that the other flags leave in")
	fs.BoolVar(&d.selector.allSinks, "all-sinks", false, "deliveries at several sinks at once")
	fs.BoolVar(&d.dryRun, "dry-run", false, "only list what it would be done to")
	fs.StringVar(&d.why, "why", "", "reason, a `TEXT` for the audit")
	noWaitFlag(fs, &d.noWait)
}

// carryOut selects, and asks for the verb.
func (d *deadVerb) carryOut(ctx context.Context, sh *cli.Shell, v checkpoint.Verb, past string, ids []string) error {
	sel, err := d.selector.selection(ids)
	if err != nil {
		return err
	}
	if !sel.Narrows() && !sel.All {
		return cli.WrongUsage("dead %s: nothing is selected: name IDs, or use --sink, --table, --group, --type, --topic, --tenant, --search or --reason, or say --all", v)
	}
	t, err := d.where.Open(ctx, sh)
	if err != nil {
		return err
	}
	if err := d.selector.sink.known(ctx, t, "dead "+string(v)); err != nil {
		return err
	}
	if sel.Table, err = tableNamed(ctx, t, "dead "+string(v), sel.Table); err != nil {
		return err
	}
	one, many := "delivery", "deliveries"
	if v == checkpoint.VerbDrop && len(ids) > 0 && d.selector.state == nil {
		if retried, err := onlyRetried(ctx, t, &sel); err != nil {
			return err
		} else if retried {
			one, many = "delivery that was retried", "deliveries that were retried"
		}
	}
	if d.dryRun {
		limit := listLimit
		if sel.Limit > 0 {
			limit = 0 // all of these
		}
		found, more, err := t.Parked(ctx, sel, limit)
		if err != nil {
			return err
		}
		return errors.Join(printParked(sh.Out, sh.Width, found, more), oneTable(ids, found))
	}
	sinks, err := sinksOf(ctx, t, sel)
	if err != nil {
		return err
	}
	if err := oneSink(sinks, d.selector.allSinks); err != nil {
		return err
	}
	if len(sinks) == 0 {
		return fmt.Errorf("dead %s: nothing matches: see tailbox dead list --state dead,retrying,waiting", v)
	}
	sel.AllowReorder = d.reorder
	request := &verb{request: checkpoint.Request{Verb: v, Selection: sel, Reason: d.why}, noWait: d.noWait,
		done: func(n int) string { return past + " " + cli.Count(n, one, many) }}
	return request.perform(ctx, sh, t)
}

// onlyRetried reports whether a selection finds nothing that is dead, but something that is retried: then it is about that.
func onlyRetried(ctx context.Context, t *Target, sel *checkpoint.Selection) (bool, error) {
	dead, _, err := t.Parked(ctx, *sel, 1)
	if err != nil || len(dead) > 0 {
		return false, err
	}
	other := *sel
	other.States = []checkpoint.State{checkpoint.StateRetrying}
	found, _, err := t.Parked(ctx, other, 1)
	if err != nil || len(found) == 0 {
		return false, err
	}
	*sel = other
	return true, nil
}

func newDeadReplay() *cli.Command {
	d := &deadVerb{}
	return &cli.Command{
		Name: "replay", Args: "[ID…]", About: "makes dead deliveries due again, each group in its order, with attempts counted anew",
		Long:    "If its group has gone on, tailbox replays a delivery only with --allow-reorder: it then comes after messages that were committed later.",
		Example: "tailbox dead replay 5f0c7e0a-…\ntailbox dead replay --sink mail --type 'email.*' --dry-run",
		Flags: func(fs *flag.FlagSet) {
			d.flags(fs)
			fs.BoolVar(&d.reorder, "allow-reorder", false, "also replay deliveries whose group has gone on: they then come out of order")
		},
		Run: func(ctx context.Context, sh *cli.Shell, ids []string) error {
			return d.carryOut(ctx, sh, checkpoint.VerbReplay, "replaying", ids)
		},
	}
}

func newDeadDrop() *cli.Command {
	d := &deadVerb{}
	return &cli.Command{
		Name: "drop", Args: "[ID…]", About: "gives deliveries up for good; needs --why",
		Long:    "If an ID has no dead delivery but one that is retried, tailbox drops that one, and its group goes on.",
		Example: `tailbox dead drop 5f0c7e0a-… --why "customer was deleted"` + "\ntailbox dead drop 5 --table orders_outbox --why TICKET-7",
		Flags:   d.flags,
		Run: func(ctx context.Context, sh *cli.Shell, ids []string) error {
			if d.why == "" && !d.dryRun {
				return cli.WrongUsage("dead drop: say why with --why TEXT: it is kept in tailbox_request")
			}
			return d.carryOut(ctx, sh, checkpoint.VerbDrop, "dropped", ids)
		},
	}
}

func newDeadEdit() *cli.Command {
	var at sinkFlag
	var where Where
	var table, payload, kind, topic, key, newID, why string
	var headers map[string]string
	var noWait, reorder, allSinks bool
	set := map[string]bool{}
	return &cli.Command{
		Name: "edit", Args: "ID", About: "changes a dead message and replays it under a new id, in its old place",
		Long: "The changed message has an id of its own and the header tailbox-replaces with the old one, so that a consumer that has\n" +
			"seen the old one takes it.",
		Example: `tailbox dead edit 5f0c7e0a-… --payload '{"amount": 20}'` + "\ntailbox dead edit 5f0c7e0a-… --payload @fixed.json --why TICKET-7",
		Flags: func(fs *flag.FlagSet) {
			where.Flags(fs)
			text := func(name, usage string, into *string) {
				fs.Func(name, usage, func(v string) error { *into, set[name] = v, true; return nil })
			}
			text("payload", "new payload: a `TEXT`, @FILE for a file, or - for the standard input", &payload)
			text("type", "new `TYPE`", &kind)
			text("topic", "new `TOPIC`, as in the row: the router still shapes it", &topic)
			text("key", "new `KEY`", &key)
			headersFlag(fs, &headers)
			fs.StringVar(&newID, "new-id", "", "`ID` of the changed message (default a random UUID)")
			at.flag(fs, "only the delivery to this sink, `NAME`")
			tableFlag(fs, &table)
			fs.BoolVar(&allSinks, "all-sinks", false, "the deliveries at all sinks at once")
			fs.BoolVar(&reorder, "allow-reorder", false, "also if its group has gone on: the message then comes out of order")
			fs.StringVar(&why, "why", "", "reason, a `TEXT` for the audit")
			noWaitFlag(fs, &noWait)
		},
		Run: func(ctx context.Context, sh *cli.Shell, ids []string) error {
			if len(ids) != 1 {
				return cli.WrongUsage("dead edit: name one message by its ID")
			}
			edit := &checkpoint.Edit{Headers: headers, NewID: newID}
			if set["payload"] {
				data, err := readPayload(ctx, sh, payload)
				if err != nil {
					return err
				}
				edit.Payload = &data
			}
			for name, into := range map[string]struct {
				value *string
				field **string
			}{"type": {&kind, &edit.Type}, "topic": {&topic, &edit.Topic}, "key": {&key, &edit.Key}} {
				if set[name] {
					*into.field = into.value
				}
			}
			if len(set) == 0 && len(headers) == 0 && newID == "" {
				return cli.WrongUsage("dead edit: say what to change with --payload, --type, --topic, --key, --header or --new-id; to send it as it is, use dead replay")
			}
			t, err := where.Open(ctx, sh)
			if err != nil {
				return err
			}
			if table, err = at.knownWith(ctx, t, "dead edit", table); err != nil {
				return err
			}
			sel := at.in(checkpoint.Selection{IDs: ids, Table: table, AllowReorder: reorder, Edit: edit})
			sinks, err := sinksOf(ctx, t, at.in(checkpoint.Selection{IDs: ids, Table: table, States: []checkpoint.State{checkpoint.StateDead}}))
			if err != nil {
				return err
			}
			if len(sinks) == 0 {
				return fmt.Errorf("edit %s: no dead delivery has that ID: see tailbox dead list", ids[0])
			}
			if err := oneSink(sinks, allSinks); err != nil {
				return err
			}
			v := &verb{request: checkpoint.Request{Verb: checkpoint.VerbEdit, Selection: sel, Reason: why}, noWait: noWait,
				done: func(n int) string { return "changed, and replaying " + cli.Count(n, "delivery", "deliveries") }}
			return v.perform(ctx, sh, t)
		},
	}
}
