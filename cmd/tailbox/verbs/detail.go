package verbs

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/view"
)

// printDetails shows deliveries one below the other.
func printDetails(w io.Writer, found []store.Listed) error {
	for i, v := range view.OfMessages(found) {
		if i > 0 {
			fmt.Fprintln(w)
		}
		rows := [][]string{{"id", v.ID}, {"replaces", v.Replaces}, {"sink", pipeline.SinkName(v.Sink)}, {"table", v.Table}, {"group", v.Group},
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
			rows = append(rows, []string{"header " + cli.Cell(h.Name, 0), value})
		}
		var shown [][]string
		for _, row := range rows {
			if row[1] != "" && row[1] != "-" {
				shown = append(shown, []string{row[0], cli.Cell(row[1], 2000)})
			}
		}
		if err := cli.Table(w, shown); err != nil {
			return err
		}
		fmt.Fprintln(w, payloadText(&v))
	}
	return nil
}

func payloadText(v *view.Message) string {
	switch {
	case v.InTable:
		return "payload: only the row of the outbox table has it, because it is too large to be copied or cannot be understood"
	case v.PayloadBase64 != "":
		return "payload (base64):\n" + v.PayloadBase64
	case v.Payload == nil:
		return "payload: NULL"
	}
	return "payload:\n" + harmless(*v.Payload)
}

// harmless shows what a terminal would obey, or what would turn its text around, as \uXXXX. The payload is foreign: -o json has it exactly.
func harmless(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r), r == '\n', r == '\t':
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
