package console

import (
	"fmt"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/view"
)

// mostShown is how much of a payload a page shows, in bytes. A larger one is not edited here.
const mostShown = 256 << 10

// atSink shows a message as it is at one sink, with the form of an edit.
func (v *visit) atSink(m *view.Message) g.Node {
	next, key := "", ""
	if m.NextAt != nil {
		next = ", next " + inTime(time.Until(*m.NextAt))
	}
	if m.Key != nil {
		key = *m.Key
	}
	return h.Section(h.H2(g.Text("At "+sinkName(m.Sink))),
		terms("State", g.Group{state(string(m.State)), g.Text(fmt.Sprintf(", %s, %s%s", count(m.Attempts, "attempt", "attempts"), count(m.Tries, "try", "tries"), next))},
			"Position", m.Position, "Topic", m.Topic, "Key", key, "Replaces", m.Replaces, "Last error", m.LastError),
		g.Iff(len(m.Headers) > 0, func() g.Node { return g.Group{h.H3(g.Text("Headers")), headerTable(m.Headers)} }),
		h.H3(g.Text("Payload")), payload(m),
		g.Iff(v.operates() && m.State == checkpoint.StateDead, func() g.Node { return v.editForm(m) }))
}

func headerTable(headers []view.Header) g.Node {
	rows := make([]g.Node, len(headers))
	for i := range headers {
		value := h.Em(g.Text("none"))
		if headers[i].Value != nil {
			value = g.Text(*headers[i].Value)
		}
		rows[i] = h.Tr(h.Th(h.Scope("row"), g.Text(headers[i].Name)), cell(value))
	}
	return table("Headers", nil, rows...)
}

func payload(m *view.Message) g.Node {
	switch {
	case m.InTable:
		return h.P(g.Text("Only the row of the outbox table has it: it is too large to be copied, or cannot be understood."))
	case len(m.PayloadBase64) > mostShown:
		return g.Group{h.P(g.Text("It is no text. Its first 256 KiB in base64; the API has all of it:")), pre(m.PayloadBase64[:mostShown])}
	case m.PayloadBase64 != "":
		return g.Group{h.P(g.Text("It is no text. In base64:")), pre(m.PayloadBase64)}
	case m.Payload == nil:
		return h.P(g.Text("NULL"))
	case len(*m.Payload) > mostShown:
		return g.Group{h.P(g.Text("Its first 256 KiB; the API has all of it:")), pre(strings.ToValidUTF8((*m.Payload)[:mostShown], ""))}
	}
	return pre(pretty(*m.Payload))
}

// editForm is the form of an edit. What a field held before stands beside it, so that only what was changed is sent.
func (v *visit) editForm(m *view.Message) g.Node {
	body := h.P(g.Text("The payload cannot be edited here: it is no text, is larger than 256 KiB, or has line ends that a browser would change. The API can."))
	if m.Payload != nil && !m.InTable && len(*m.Payload) <= mostShown && !strings.Contains(*m.Payload, "\r") {
		body = g.Group{h.Input(h.Type("hidden"), h.Name("old_payload"), h.Value(*m.Payload)),
			// A browser drops a line break behind the tag.
			h.Label(g.Text("Payload "), h.Textarea(h.Name("payload"), h.Rows("10"), g.Attr("spellcheck", "false"), g.Text("\n"+*m.Payload)))}
	}
	return h.Details(h.Summary(g.Text("Edit and replay")),
		h.Form(h.Method("post"), h.Action("/do/edit"), h.Class("card"), hidden("id", m.ID, "sink", m.Sink, "table", m.Table, "back", v.r.URL.RequestURI(),
			"old_type", m.Type, "old_topic", m.Topic), body,
			field("Type", "type", m.Type), field("Topic", "topic", m.Topic), field("Header to set", "header_name", ""), field("Its value", "header_value", ""),
			h.Button(h.Class("primary"), g.Text("Show the change …"))))
}
