package verbs

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/outbox"
)

// A sending is one message as the command line has it. Nil texts were not given.
type sending struct {
	table                                    string
	id, kind, group, topic, key, idempotency *string
	headers                                  map[string]string
}

// NewSend is the command send.
func NewSend() *cli.Command {
	var file string
	var s sending
	return &cli.Command{
		Name: "send", Args: "PAYLOAD|-", About: "writes one message into the outbox, as an application would, and prints its id",
		Long:    "With -, the payload is read from the standard input; with @FILE, from a file.",
		Example: `tailbox send --type OrderPaid --topic order --key 42 '{"order": 42}'`,
		Flags: func(fs *flag.FlagSet) {
			pipeline.ConfigFlag(fs, &file)
			text := func(name, usage string, into **string) {
				fs.Func(name, usage, func(v string) error { *into = &v; return nil })
			}
			text("type", "`TYPE` of the message, required", &s.kind)
			text("group", "message `GROUP`; if the table makes it of several columns, their values joined by :", &s.group)
			text("topic", "`TOPIC` column (shape debezium: aggregatetype)", &s.topic)
			text("key", "`KEY` column (shape debezium: aggregateid)", &s.key)
			text("id", "`ID` of the message (default: a new one)", &s.id)
			text("idempotency-key", "`KEY` by which a message that is there already is found, and not written twice", &s.idempotency)
			headersFlag(fs, &s.headers)
			fs.StringVar(&s.table, "table", "", "outbox table, `NAME` (default the first of the configuration)")
		},
		Run: func(ctx context.Context, sh *cli.Shell, args []string) error {
			if len(args) != 1 {
				return cli.WrongUsage("send: give one payload, or - for the standard input")
			}
			if s.kind == nil {
				return cli.WrongUsage("send: give the message's type with --type T")
			}
			p, err := pipeline.Load(ctx, sh, file)
			if err != nil {
				return err
			}
			payload, err := readPayload(ctx, sh, args[0])
			if err != nil {
				return err
			}
			t, err := p.Table(s.table)
			if err != nil {
				return cli.WrongUsage("send: %w", err)
			}
			id, err := p.Send(ctx, p.Database(sh.Log(), nil), t, s.draft(payload))
			if err != nil {
				return flagged(err)
			}
			_, err = fmt.Fprintln(sh.Out, id)
			return err
		},
	}
}

// draft is the message as the builder of INSERTs takes it.
func (s *sending) draft(payload []byte) outbox.Draft {
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	return outbox.Draft{ID: text(s.id), Type: *s.kind, Topic: text(s.topic), Group: text(s.group), Key: text(s.key),
		IdempotencyKey: text(s.idempotency), Once: text(s.idempotency) != "", Headers: s.headers, Payload: payload}
}

// flagged says which flag a part of the draft that cannot be written came from.
func flagged(err error) error {
	wrong, ok := errors.AsType[*outbox.DraftError](err)
	if !ok {
		return err
	}
	flag, ok := map[string]string{"ID": "id", "Type": "type", "Topic": "topic", "Group": "group", "Key": "key", "Headers": "header",
		"IdempotencyKey": "idempotency-key"}[wrong.Field]
	if !ok {
		return err
	}
	return cli.WrongUsage("send: --%s: table %s: it %s", flag, wrong.Table, wrong.Reason)
}
