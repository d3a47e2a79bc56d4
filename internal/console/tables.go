package console

import (
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/internal/api"
	"github.com/tailbox/tailbox/source/store/report"
	"github.com/tailbox/tailbox/source/store/view"
)

// messageLink leads to the page of a delivery's message.
func messageLink(d *view.Delivery) g.Node {
	return link("/message"+query("id", d.ID, "sink", d.Sink, "table", d.Table), d.ID)
}

func deliveryTable(list []view.Delivery) g.Node {
	columns := []string{"Message", "State", "Sink", "Type", "Group", "Error", "Attempts", "Since"}
	rows := make([]g.Node, len(list))
	for i := range list {
		d := &list[i]
		next := ""
		if d.NextAt != nil {
			next = " " + inTime(time.Until(*d.NextAt))
		}
		rows[i] = h.Tr(cell(messageLink(d)), cell(state(string(d.State)), g.Text(next)), text(sinkName(d.Sink)), cell(g.Text(d.Type), small(d.Table)), text(d.Group),
			cell(g.Text(d.ErrorClass), small(d.LastError)), number(d.Attempts), cell(ago(d.ChangedAt)))
	}
	return table("Deliveries", columns, rows...)
}

// small is a second line in small letters; nothing for an empty text.
func small(s string) g.Node { return g.If(s != "", g.Group{h.Br(), h.Small(g.Text(s))}) }

// deadCount is a number of dead letters, with a link to them.
func deadCount(s *report.SinkCount) g.Node {
	if s.Dead == 0 {
		return number(0)
	}
	return cell(link(deadLink(s.Sink), strconv.Itoa(s.Dead)))
}

func sinkTable(list []report.SinkCount, verbs bool) g.Node {
	columns := []string{"Sink", "State", "Dead", "Retried", "Waiting", "Groups that wait", "Overdue", "Oldest undelivered"}
	if verbs {
		columns = append(columns, "Decide")
	}
	rows := make([]g.Node, len(list))
	for i := range list {
		s := &list[i]
		overdue, oldest := "no", "none"
		if s.DueSeconds > 0 {
			overdue = seconds(s.DueSeconds)
		}
		if s.UndeliveredSeconds > 0 {
			oldest = seconds(s.UndeliveredSeconds)
		}
		var decide g.Group
		if s.Paused || s.State == "failing" || s.State == "throttled" { // a sink that resumes is tried at once
			decide = append(decide, verbForm("resume", "sink", s.Sink, "sink", s.Sink))
		}
		if !s.Paused {
			decide = append(decide, verbForm("pause", "sink", s.Sink, "sink", s.Sink))
		}
		rows[i] = h.Tr(text(sinkName(s.Sink)), cell(state(s.State)), deadCount(s), number(s.Retrying), number(s.Waiting), number(s.Lanes), text(overdue), text(oldest),
			g.If(verbs, h.Td(h.Class("verbs"), g.If(s.Sink != "", decide))))
	}
	return table("Sinks", columns, rows...)
}

// verbForm is a button for a verb on a group or a sink, which screen readers name in full.
func verbForm(verb, kind, name string, fields ...string) g.Node {
	return h.Form(h.Method("post"), h.Action("/do/"+verb+"-"+kind+map[string]string{"group": "s"}[kind]), h.Class("inline"), hidden(fields...),
		h.Button(h.Aria("label", verb+" "+kind+" "+name), g.Text(verb)))
}

func (v *visit) groupTable(list []view.Group) g.Node {
	columns := []string{"Group", "Sink", "Waiting", "Waits for"}
	if v.operates() {
		columns = append(columns, "Decide")
	}
	rows := make([]g.Node, len(list))
	for i := range list {
		l := &list[i]
		at := sinkName(l.Sink)
		if l.Held && l.Sink == "" {
			at = "every sink"
		}
		var waits, verbs g.Group
		// A verb for the group at "no sink" would reach the group at every sink.
		unrouted := l.Sink == "" && l.First != nil
		if l.Held {
			waits = append(waits, h.Span(h.Class("state paused"), g.Text("held by an operator")), g.Text(" "))
			sink := l.Sink
			if l.Everywhere {
				sink = ""
			}
			verbs = append(verbs, verbForm("resume", "group", l.Group, "groups", l.Group, "sink", sink))
		} else if !unrouted {
			verbs = append(verbs, verbForm("hold", "group", l.Group, "groups", l.Group, "sink", l.Sink))
		}
		if f := l.First; f != nil {
			waits = append(waits, messageLink(f), g.Text(" "), state(string(f.State)), g.Text(" "+f.ErrorClass))
			if unrouted {
				verbs = append(verbs, link("/deliveries"+query("group", l.Group, "unrouted", "true"), "Decide"))
			} else if f.State == checkpoint.StateDead {
				verbs = append(verbs, verbForm("replay", "group", l.Group, "groups", l.Group, "sink", l.Sink), verbForm("skip", "group", l.Group, "groups", l.Group, "sink", l.Sink))
			}
		}
		all := "/deliveries" + query("group", l.Group, "state", "dead", "state", "retrying", "state", "waiting")
		rows[i] = h.Tr(cell(link(all, l.Group)), text(at), number(l.Deliveries), cell(waits), g.If(v.operates(), h.Td(h.Class("verbs"), verbs)))
	}
	return table("Groups", columns, rows...)
}

func requestTable(list []api.Asked) g.Node {
	columns := []string{"Request", "Asked", "By", "Verb", "Why", "Result"}
	rows := make([]g.Node, len(list))
	for i := range list {
		a := &list[i]
		id := strconv.FormatInt(a.ID, 10)
		rows[i] = h.Tr(cell(link("/audit/"+id, id)), cell(ago(a.RequestedAt)), text(a.By), text(a.Verb), text(a.Why), cell(outcome(a)))
	}
	return table("Requests", columns, rows...)
}

// outcome is what became of a request.
func outcome(a *api.Asked) g.Node {
	var all g.Group
	if a.DoneAt == nil {
		all = append(all, h.Span(h.Class("state waiting"), g.Text("not carried out yet")), g.Text(", "))
	}
	if a.Error != "" {
		return append(all, h.Span(h.Class("state dead"), g.Text("failed")), g.Text(" "+a.Error))
	}
	said := strconv.Itoa(a.Changed) + " changed"
	if a.Refused > 0 {
		said += ", " + strconv.Itoa(a.Refused) + " left as they were: " + a.RefusedWhy
	}
	if a.Note != "" {
		said += "; " + a.Note
	}
	all = append(all, g.Text(said))
	if a.NewID != "" {
		all = append(all, g.Text("; new id "), link("/message"+query("id", a.NewID), a.NewID))
	}
	return all
}
