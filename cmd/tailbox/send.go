package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// A sending is one message as the command line has it. Nil texts were not given.
type sending struct {
	table                   string
	kind, group, topic, key *string
	headers                 map[string]string
}

func newSend() *command {
	var file string
	var s sending
	return &command{
		name: "send", args: "PAYLOAD|-", about: "writes one message into the outbox, as an application would, and prints its id",
		long:    "With -, the payload is read from the standard input; with @FILE, from a file.",
		example: `tailbox send --type OrderPaid --topic order --key 42 '{"order": 42}'`,
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			text := func(name, usage string, into **string) {
				fs.Func(name, usage, func(v string) error { *into = &v; return nil })
			}
			text("type", "`TYPE` of the message, required", &s.kind)
			text("group", "message `GROUP`; where the table makes it of several columns, their values joined by :", &s.group)
			text("topic", "`TOPIC` column (shape debezium: aggregatetype)", &s.topic)
			text("key", "`KEY` column (shape debezium: aggregateid)", &s.key)
			headersFlag(fs, &s.headers)
			fs.StringVar(&s.table, "table", "", "outbox table, `NAME` (default the first of the configuration)")
		},
		run: func(ctx context.Context, sh *shell, args []string) error {
			if len(args) != 1 {
				return wrongUsage("send: give one payload, or - for the standard input")
			}
			if s.kind == nil {
				return wrongUsage("send: give the message's type with --type T")
			}
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			payload, err := readPayload(sh, args[0])
			if err != nil {
				return err
			}
			t, err := s.find(p.config.Source.Tables)
			if err != nil {
				return err
			}
			values, err := s.values(t, payload)
			if err != nil {
				return err
			}
			id, err := p.database(sh.log(), nil).send(ctx, t, values)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(sh.out, id)
			return err
		},
	}
}

func (s *sending) find(tables []outbox.Table) (*outbox.Table, error) {
	var names []string
	for i := range tables {
		t := &tables[i]
		name := strings.TrimPrefix(t.String(), ".")
		if s.table == "" || s.table == name || s.table == t.Name {
			return t, nil
		}
		names = append(names, name)
	}
	return nil, wrongUsage("send: there is no table %q: the configuration has %s", s.table, strings.Join(names, ", "))
}

// values gives each column of the table its value.
func (s *sending) values(t *outbox.Table, payload []byte) (map[string][]byte, error) {
	values := map[string][]byte{}
	put := func(flag, column, value string) error {
		if column == "" {
			return wrongUsage("send: --%s: table %s has no such column: name it under source.tables.columns", flag, t.Name)
		}
		if old, ok := values[column]; ok && string(old) != value {
			return wrongUsage("send: --%s: column %s would get both %q and %q: leave out one of the flags", flag, column, old, value)
		}
		values[column] = []byte(value)
		return nil
	}
	c := &t.Columns
	var errs []error
	for _, one := range []struct {
		flag, column string
		value        *string
	}{{"type", c.Type, s.kind}, {"topic", c.Topic, s.topic}, {"key", c.Key, s.key}} {
		if one.value != nil {
			errs = append(errs, put(one.flag, one.column, *one.value))
		}
	}
	if s.group != nil {
		parts := strings.SplitN(*s.group, ":", max(1, len(c.Group)))
		if len(parts) != len(c.Group) {
			return nil, wrongUsage("send: --group %q: table %s makes the group of its columns %v, joined by :", *s.group, t.Name, c.Group)
		}
		for i, part := range parts {
			errs = append(errs, put("group", c.Group[i], part))
		}
	}
	if len(s.headers) > 0 {
		text, err := json.Marshal(s.headers)
		if err != nil {
			return nil, fmt.Errorf("write headers: %w", err)
		}
		errs = append(errs, put("header", c.Headers, string(text)))
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	values[c.Payload] = payload
	return values, nil
}

func sortedKeys(m map[string][]byte) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
