package verbs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// A selector is the part of a command line that chooses parked deliveries.
type selector struct {
	sink                              sinkFlag
	table, group, kind, topic, tenant string
	search, reason                    string
	state                             stateFlag
	limit                             int
	all, allSinks                     bool
}

// A sinkFlag is --sink. The empty name, which lists show as ”, is a sink of its own: that of messages for which no sink could
// be chosen.
type sinkFlag struct {
	name string
	set  bool
}

func (f *sinkFlag) flag(fs *flag.FlagSet, usage string) {
	fs.Func("sink", usage, func(name string) error {
		if name == "''" {
			name = ""
		}
		if f.name, f.set = name, true; !store.CanBeSink(name) {
			return store.ErrNoSink
		}
		return nil
	})
}

// in puts the sink into a selection.
func (f *sinkFlag) in(sel checkpoint.Selection) checkpoint.Selection {
	sel.Sink, sel.Unrouted = f.name, f.set && f.name == ""
	return sel
}

// known refuses a name that neither the configuration has, nor any parked delivery.
func (f *sinkFlag) known(ctx context.Context, t *Target, command string) error {
	if !f.set || f.name == "" {
		return nil
	}
	unknown := knowSinks(ctx, t, command, []string{f.name})
	if unknown == nil {
		return nil
	}
	left, _, err := t.Parked(ctx, checkpoint.Selection{Sink: f.name, States: anyState()}, 1)
	if err != nil || len(left) > 0 {
		return err
	}
	return unknown
}

// knownWith does the same, and returns the table that --table means beside it.
func (f *sinkFlag) knownWith(ctx context.Context, t *Target, command, table string) (string, error) {
	if err := f.known(ctx, t, command); err != nil {
		return "", err
	}
	return tableNamed(ctx, t, command, table)
}

// flags adds the flags that a list understands.
func (s *selector) flags(fs *flag.FlagSet, limit int) {
	s.sink.flag(fs, "only deliveries to this sink, `NAME`; '' for messages that no sink could be chosen for")
	tableFlag(fs, &s.table)
	fs.StringVar(&s.group, "group", "", "only this message group, `NAME`")
	fs.StringVar(&s.kind, "type", "", "only messages whose type matches `GLOB`: * any text, ? one character, \\ takes the next one as it is")
	fs.StringVar(&s.topic, "topic", "", "only messages whose topic matches `GLOB`")
	fs.StringVar(&s.tenant, "tenant", "", "only messages whose tenant matches `GLOB`")
	fs.StringVar(&s.search, "search", "", "only messages with this `TEXT` in their ID, their group or their key")
	fs.StringVar(&s.reason, "reason", "", "only deliveries whose error or error class matches `GLOB`")
	s.state.flag(fs)
	fs.IntVar(&s.limit, "limit", limit, "at most `N` deliveries; 0 = no limit")
}

// selection is what the flags and IDs select.
func (s *selector) selection(ids []string) (checkpoint.Selection, error) {
	sel := s.sink.in(checkpoint.Selection{IDs: ids, Table: s.table, Type: s.kind, Topic: s.topic, Tenant: s.tenant, Search: s.search, Reason: s.reason, Limit: s.limit,
		All: s.all})
	if s.group != "" {
		sel.Groups = []string{s.group}
	}
	if s.limit < 0 {
		return sel, cli.WrongUsage("--limit %d: must not be negative", s.limit)
	}
	sel.States = s.state.states()
	return sel, nil
}

// A stateFlag is --state.
type stateFlag []checkpoint.State

func (f *stateFlag) flag(fs *flag.FlagSet) {
	fs.Func("state", "states, a `LIST` of dead, retrying, waiting (default dead)", func(list string) error {
		*f = nil
		for word := range strings.SplitSeq(list, ",") {
			state := checkpoint.State(strings.TrimSpace(word))
			if !slices.Contains(anyState(), state) {
				return errors.New("must be a list of dead, retrying, waiting")
			}
			*f = append(*f, state)
		}
		return nil
	})
}

func (f stateFlag) states() []checkpoint.State {
	if f == nil {
		return []checkpoint.State{checkpoint.StateDead}
	}
	return f
}

// String is the flag as it would be written.
func (f stateFlag) String() string {
	names := make([]string, len(f))
	for i, state := range f {
		names[i] = string(state)
	}
	return strings.Join(names, ",")
}

// sinksOf names the sinks at which a selection finds deliveries, of those that the configuration has, and the first of any.
func sinksOf(ctx context.Context, t *Target, sel checkpoint.Selection) ([]string, error) {
	first, _, err := t.Parked(ctx, sel, 1)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	found := []string{first[0].Sink}
	if _, limited := sel.AtSink(); limited {
		return found, nil
	}
	names, err := t.Sinks(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name == first[0].Sink {
			continue
		}
		at := sel
		at.Sink = name
		list, _, err := t.Parked(ctx, at, 1)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			found = append(found, name)
		}
	}
	return found, nil
}

// oneSink refuses a selection that reaches deliveries at several sinks, unless the operator has said so.
func oneSink(sinks []string, allSinks bool) error {
	if len(sinks) < 2 || allSinks {
		return nil
	}
	names := make([]string, len(sinks))
	for i, name := range sinks {
		names[i] = pipeline.SinkName(name)
	}
	slices.Sort(names)
	return cli.WrongUsage("the selection reaches deliveries at several sinks, %s: choose one with --sink, or say --all-sinks", strings.Join(names, ", "))
}

// tableFlag adds --table.
func tableFlag(fs *flag.FlagSet, into *string) {
	fs.StringVar(into, "table", "", "only messages of this outbox table, `NAME`, with or without its schema, as in the configuration")
}

// tableNamed is the table that --table means: its name is read as in the configuration, where it is quoted if it has a dot or a quote,
// or is the name itself. A name that neither the configuration has, nor any parked delivery, is refused.
func tableNamed(ctx context.Context, t *Target, command, value string) (string, error) {
	if value == "" {
		return "", nil
	}
	spellings := []string{value}
	if schema, name, err := config.SplitTable(value); err == nil {
		read := strings.TrimPrefix(outbox.Table{Schema: schema, Name: name}.String(), ".")
		spellings = slices.Compact([]string{read, value})
	}
	for _, spelling := range spellings {
		if slices.ContainsFunc(t.tables, func(t outbox.Table) bool { return called(&t, spelling) }) {
			return spelling, nil
		}
		left, _, err := t.Parked(ctx, checkpoint.Selection{Table: spelling, States: anyState()}, 1)
		if err != nil || len(left) > 0 {
			return spelling, err
		}
	}
	if t.tables == nil {
		return spellings[0], nil // nothing of it is parked, which is no error if the configuration has it
	}
	names := make([]string, len(t.tables))
	for i := range t.tables {
		names[i] = strings.TrimPrefix(t.tables[i].String(), ".")
	}
	return "", cli.WrongUsage("%s: nothing is parked of a table %q: the configuration has %s", command, value, strings.Join(names, ", "))
}

// called reports whether a table has the name, with its schema or without.
func called(t *outbox.Table, name string) bool {
	if t.Schema == "" {
		return name == t.Name || strings.HasSuffix(name, "."+t.Name)
	}
	return name == t.Name || name == t.String()
}

// oneTable refuses an id that messages of several tables have, as the database does when it carries a request out.
func oneTable(ids []string, found []store.Listed) error {
	if len(ids) == 0 {
		return nil
	}
	tables := store.NewIDTables(ids)
	for i := range found {
		tables.Add(found[i].RowID(), found[i].Message.Table)
	}
	if why := tables.Ambiguous(); why != "" {
		return cli.WrongUsage("%s", why)
	}
	return nil
}

// headersFlag adds --header, which may be repeated.
func headersFlag(fs *flag.FlagSet, headers *map[string]string) {
	fs.Func("header", "a header, `NAME=VALUE`; may be repeated", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return fmt.Errorf("must be NAME=VALUE")
		}
		if *headers == nil {
			*headers = map[string]string{}
		}
		(*headers)[name] = value
		return nil
	})
}

func noWaitFlag(fs *flag.FlagSet, v *bool) {
	fs.BoolVar(v, "no-wait", false, "do not wait until it is carried out")
}

// readPayload is the payload an argument stands for: - is the standard input, @FILE a file, anything else itself.
func readPayload(ctx context.Context, sh *cli.Shell, arg string) ([]byte, error) {
	if arg == "-" {
		data, err := readUntil(ctx, func() ([]byte, error) { return io.ReadAll(sh.In) })
		if err != nil {
			return nil, fmt.Errorf("read payload from standard input: %w", err)
		}
		return data, nil
	}
	if name, ok := strings.CutPrefix(arg, "@"); ok {
		data, err := readUntil(ctx, func() ([]byte, error) { return os.ReadFile(name) })
		if err != nil {
			return nil, fmt.Errorf("read payload: %w", err)
		}
		return data, nil
	}
	return []byte(arg), nil
}

// readUntil reads, and no longer than ctx lasts: a terminal or a pipe may never come to its end, and nothing can take a read of
// one back. The goroutine that is left with it then ends with the process.
func readUntil(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		data, err := read()
		got <- answer{data, err}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case a := <-got:
		return a.data, a.err
	}
}
