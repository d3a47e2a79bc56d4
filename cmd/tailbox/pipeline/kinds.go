package pipeline

import (
	"io"

	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/compressed"
	"github.com/tailbox/tailbox/sink/discard"
	"github.com/tailbox/tailbox/sink/file"
	"github.com/tailbox/tailbox/sink/http"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/sink/nats"
	"github.com/tailbox/tailbox/sink/slack"
	"github.com/tailbox/tailbox/sink/smtp"
	"github.com/tailbox/tailbox/sink/stdout"
)

// A kind of sink. A reserved one has a name and no read: it belongs to a version to come.
type kind struct {
	name string
	read func(sink.Section) sink.Spec
}

// kinds is the table of all kinds of sinks, and the only one. A new kind is a package below sink, a line here, and a page in docs/sinks. The kind stdout
// writes to out.
func kinds(out io.Writer) []kind {
	return []kind{
		{"discard", plainly(discard.Read)},
		{"file", plainly(file.Read)},
		{"http", compressing(http.Read)},
		{"kafka", compressing(kafka.Read)},
		{"nats", compressing(nats.Read)},
		{"slack", plainly(slack.Read)},
		{"smtp", plainly(smtp.Read)},
		{"stdout", func(s sink.Section) sink.Spec { return stdout.Read(s, out) }},
		{"mqtt", nil},
		{"rabbitmq", nil},
		{"redis", nil},
	}
}

// plainly makes a reader of a kind's own one.
func plainly[C sink.Spec](read func(sink.Section) C) func(sink.Section) sink.Spec {
	return func(s sink.Section) sink.Spec { return read(s) }
}

// compressing also reads the keys of the compression, for a kind whose deliveries have headers.
func compressing[C sink.Spec](read func(sink.Section) C) func(sink.Section) sink.Spec {
	return func(s sink.Section) sink.Spec { return compressed.Read(s, read(s)) }
}

// kindNames lists the kinds that are built in, and those that are reserved.
func kindNames() (available, reserved []string) {
	for _, k := range kinds(nil) {
		if k.read == nil {
			reserved = append(reserved, k.name)
		} else {
			available = append(available, k.name)
		}
	}
	return available, reserved
}
