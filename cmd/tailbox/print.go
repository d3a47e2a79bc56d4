package main

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tailbox/tailbox/checkpoint"
)

// output is the flag -o.
type output struct{ json bool }

func (o *output) flag(fs *flag.FlagSet) {
	fs.Func("o", "`FORMAT`: text or json", func(v string) error {
		if v != "json" && v != "text" {
			return fmt.Errorf("must be text or json")
		}
		o.json = v == "json"
		return nil
	})
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table prints rows in columns; the first row is the heading.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return t.Flush()
}

const (
	maxCell    = 40
	maxMessage = 60
)

// cell makes text fit into a table: control characters become spaces, and long text is cut.
func cell(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most-1]) + "…"
}

// sinkName shows the empty name, which stands for messages that could not be routed.
func sinkName(name string) string {
	if name == "" {
		return "''"
	}
	return name
}

// printParked lists deliveries.
func printParked(w io.Writer, found []checkpoint.Parked, more bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	rows := [][]string{{"ID", "SINK", "GROUP", "TYPE", "STATE", "ATTEMPTS", "NEXT", "CLASS", "ERROR"}}
	for i := range found {
		p := &found[i]
		rows = append(rows, []string{p.Message.ID, sinkName(p.Sink), cell(p.Message.Group, maxCell), cell(p.Message.Type, maxCell), string(p.State),
			fmt.Sprint(p.Attempts), next(p), cell(p.ErrorClass, maxCell), cell(p.LastError, maxMessage)})
	}
	if err := table(w, rows); err != nil || !more {
		return err
	}
	_, err := fmt.Fprintf(w, "and more: raise --limit\n")
	return err
}

// next tells when a delivery is due.
func next(p *checkpoint.Parked) string {
	switch {
	case !p.Due:
		return "-"
	case p.NextAttempt <= 0:
		return "now"
	}
	return "in " + p.NextAttempt.Round(time.Second).String()
}

// A parkedView is a delivery in -o json.
type parkedView struct {
	ID         string           `json:"id"`
	Sink       string           `json:"sink"`
	Table      string           `json:"table,omitempty"`
	Group      string           `json:"group,omitempty"`
	Type       string           `json:"type"`
	Topic      string           `json:"topic,omitempty"`
	Position   string           `json:"position"`
	State      checkpoint.State `json:"state"`
	Blocks     bool             `json:"blocks"`
	Attempts   int              `json:"attempts"`
	NextIn     *float64         `json:"next_attempt_in_seconds,omitempty"`
	ErrorClass string           `json:"error_class,omitempty"`
	LastError  string           `json:"last_error,omitempty"`
	Replays    int              `json:"replays"`
	Replaces   string           `json:"replaces,omitempty"`
}

func viewOf(p *checkpoint.Parked) parkedView {
	m := p.Message
	v := parkedView{ID: m.ID, Sink: p.Sink, Table: m.Table, Group: m.Group, Type: m.Type, Topic: m.Topic, Position: m.Position.String(),
		State: p.State, Blocks: p.Blocks, Attempts: p.Attempts, ErrorClass: p.ErrorClass, LastError: p.LastError, Replays: p.Replays,
		Replaces: p.Original}
	if p.Due {
		seconds := max(p.NextAttempt, 0).Seconds()
		v.NextIn = &seconds
	}
	return v
}

func parkedViews(found []checkpoint.Parked) []parkedView {
	views := make([]parkedView, len(found))
	for i := range found {
		views[i] = viewOf(&found[i])
	}
	return views
}

// A detailView is a delivery with its message, in -o json. A payload or header value that is no text is in base64.
type detailView struct {
	parkedView
	Key           *string      `json:"key"`
	Headers       []headerView `json:"headers,omitempty"`
	Payload       *string      `json:"payload"`
	PayloadBase64 string       `json:"payload_base64,omitempty"`
	InTable       bool         `json:"payload_in_table,omitempty"`
}

type headerView struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

func detailViews(found []checkpoint.Parked) []detailView {
	views := make([]detailView, len(found))
	for i := range found {
		m := found[i].Message
		v := detailView{parkedView: viewOf(&found[i]), Key: text(m.Key), InTable: found[i].InTable}
		if utf8.Valid(m.Payload) {
			v.Payload = text(m.Payload)
		} else {
			v.PayloadBase64 = base64.StdEncoding.EncodeToString(m.Payload)
		}
		for _, h := range m.Headers {
			v.Headers = append(v.Headers, headerView{h.Name, text(h.Value)})
		}
		views[i] = v
	}
	return views
}

// text is nil for NULL; what is no UTF-8 is shown in base64.
func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	if !utf8.Valid(b) {
		s = "base64:" + base64.StdEncoding.EncodeToString(b)
	}
	return &s
}

// printDetails shows deliveries one below the other.
func printDetails(w io.Writer, found []checkpoint.Parked) error {
	for i, v := range detailViews(found) {
		if i > 0 {
			fmt.Fprintln(w)
		}
		rows := [][]string{{"id", v.ID}, {"replaces", v.Replaces}, {"sink", sinkName(v.Sink)}, {"table", v.Table}, {"group", v.Group},
			{"type", v.Type}, {"topic", v.Topic}, {"position", v.Position}, {"state", string(v.State)}, {"attempts", fmt.Sprint(v.Attempts)},
			{"next attempt", next(&found[i])}, {"error class", v.ErrorClass}, {"last error", v.LastError}}
		if v.Key != nil {
			rows = append(rows, []string{"key", *v.Key})
		}
		for _, h := range v.Headers {
			value := "(none)"
			if h.Value != nil {
				value = *h.Value
			}
			rows = append(rows, []string{"header " + h.Name, value})
		}
		var shown [][]string
		for _, row := range rows {
			if row[1] != "" && row[1] != "-" {
				shown = append(shown, []string{row[0], cell(row[1], 2000)})
			}
		}
		if err := table(w, shown); err != nil {
			return err
		}
		fmt.Fprintln(w, payloadText(&v))
	}
	return nil
}

func payloadText(v *detailView) string {
	switch {
	case v.InTable:
		return "payload: in the user's table only, it is too large to be copied"
	case v.PayloadBase64 != "":
		return "payload (base64):\n" + v.PayloadBase64
	case v.Payload == nil:
		return "payload: NULL"
	}
	return "payload:\n" + *v.Payload
}
