package alert

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/tailbox/tailbox/source/store/report"
)

// A Place is the pipeline that messages are about, and the address of its console; "" if there is none.
type Place struct {
	Pipeline, Console string
}

// Subject says in one line what is wrong, and with which pipeline.
func (p Place) Subject(m *Message) string {
	word := map[Kind]string{Fired: m.Condition.Severity(), Repeated: "still " + m.Condition.Severity(), Over: "over", Left: "not watched now"}[m.Kind]
	return fmt.Sprintf("[tailbox %s] %s: %s", p.Pipeline, word, m.what())
}

// Text says what is wrong, since when, and what to do.
func (p Place) Text(m *Message) string {
	lines := []string{p.Subject(m), m.when()}
	switch m.Kind {
	case Fired, Repeated:
		lines = append(lines, "What to do: "+m.fix())
	case Left:
		lines = append(lines, "This process stops, or another one relays now. If it still holds, the next relay reports it again; else it is over.")
	}
	if link := p.link(m); link != "" {
		lines = append(lines, link)
	}
	return strings.Join(lines, "\n")
}

// what says what is wrong.
func (m *Message) what() string {
	value := m.measured()
	switch m.Condition {
	case SinkFailing:
		return fmt.Sprintf("sink %s takes nothing", m.Sink)
	case DeadLetters:
		at := "at sink " + m.Sink
		if m.Sink == "" {
			at = "that no sink could be found for"
		}
		text := many(m.Value, "dead letter", "dead letters") + " " + at
		if m.Detail != "" {
			text += " (causes since this relay began: " + m.Detail + ")"
		}
		return text
	case ManyDead, VeryManyDead:
		return many(m.Value, "dead letter", "dead letters") + " in all"
	case Undelivered:
		return fmt.Sprintf("the oldest undelivered message of sink %s is %s old", m.Sink, value)
	case Held:
		at := "at sink " + m.Sink
		if m.Sink == "" {
			at = "at every sink"
		}
		return fmt.Sprintf("waiting for an operator %s: %s, the oldest for %s", at, m.Detail, value)
	case Backlog:
		return many(m.Value, "delivery is", "deliveries are") + " stored for a retry, or wait for one"
	case Lagging, Lag:
		return "reading is " + value + " behind"
	case RetainedLog:
		return "the server keeps " + value + " of log for the pipeline"
	case RetainedShare:
		return fmt.Sprintf("the server keeps log for the pipeline that is %s of max_slot_wal_keep_size, which is %s: at 100%% the slot is lost", value, m.Detail)
	case Restarts:
		return fmt.Sprintf("the relay began again %s, within 10 minutes or before anything was settled", many(m.Value, "time", "times"))
	}
	text := "this process does not relay, and knows of no other that does"
	if m.Detail != "" {
		text += ": it is " + m.Detail
	}
	return text
}

// fix says what to do.
func (m *Message) fix() string {
	switch m.Condition {
	case SinkFailing:
		return "tailbox sink list shows the state; the relay's log says what the sink answers. Nothing is lost: its deliveries wait in the database."
	case DeadLetters:
		return "tailbox dead list, then replay, edit or drop."
	case ManyDead, VeryManyDead:
		return "tailbox dead list: find what they have in common, fix that, then tailbox dead replay --all."
	case Undelivered:
		return "tailbox sink list; is the sink paused, failing or too slow, or does a group wait for an operator?"
	case Held:
		return "tailbox group list, then replay, skip or resume."
	case Backlog:
		return "tailbox status and tailbox sink list: which sink is it, and why does it not take them?"
	case Lagging, Lag:
		return "tailbox status; is a sink too slow, or the database?"
	case RetainedLog, RetainedShare:
		return "tailbox status and tailbox check: what holds the slot back? Settle it before the disk is full or the slot is lost."
	case Restarts:
		return "read the relay's log: why does it end?"
	}
	return "tailbox status names the holder of the lock; the log of this process says why it does not relay. Is the database there?"
}

// when says since when, and the limit.
func (m *Message) when() string {
	if m.Kind == Over {
		return fmt.Sprintf("It began at %s and ended at %s, after %s.", stamp(m.Since), stamp(m.Until), report.Seconds(m.Until.Sub(m.Since).Seconds()))
	}
	word := "more than"
	if m.Condition.Least() {
		word = "at least"
	}
	since := "Since " + stamp(m.Since)
	if lasts := m.At.Sub(m.Since); lasts >= time.Second {
		since += ", for " + report.Seconds(lasts.Seconds())
	}
	return fmt.Sprintf("%s. alerts.%s: %s %s.", since, m.Condition, word, m.amount(m.Limit))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// measured is the value for people.
func (m *Message) measured() string { return m.amount(m.Value) }

func (m *Message) amount(n int64) string {
	switch m.Condition.Unit() {
	case Time:
		return report.Seconds(time.Duration(n).Seconds())
	case Bytes:
		return report.Bytes(n)
	case Percent:
		return fmt.Sprintf("%d%%", n)
	}
	return fmt.Sprint(n)
}

// link is the page of the console that shows it.
func (p Place) link(m *Message) string {
	if p.Console == "" {
		return ""
	}
	page := map[Condition]string{SinkFailing: "sinks", DeadLetters: "deliveries?sink=" + url.QueryEscape(m.Sink), ManyDead: "deliveries", VeryManyDead: "deliveries",
		Undelivered: "sinks", Held: "groups", Lagging: "source", Lag: "source", RetainedLog: "source", RetainedShare: "source"}[m.Condition]
	if m.Condition == DeadLetters && m.Sink == "" {
		page = "deliveries"
	}
	return strings.TrimSuffix(p.Console, "/") + "/" + page
}

// JSON is one line with the fields of a message.
func (p Place) JSON(m *Message) []byte {
	fields := struct {
		Pipeline string     `json:"pipeline"`
		Alert    string     `json:"alert"`
		State    string     `json:"state"`
		Severity string     `json:"severity"`
		Sink     string     `json:"sink,omitempty"`
		Unit     string     `json:"unit"`
		Value    float64    `json:"value"`
		Limit    float64    `json:"limit"`
		Detail   string     `json:"detail,omitempty"`
		At       time.Time  `json:"at"`
		Since    time.Time  `json:"since"`
		Until    *time.Time `json:"until,omitempty"`
		Subject  string     `json:"subject"`
		Text     string     `json:"text"`
		Link     string     `json:"link,omitempty"`
	}{Pipeline: p.Pipeline, Alert: m.Condition.String(), State: m.Kind.String(), Severity: m.Condition.Severity(), Sink: m.Sink, Unit: m.unit(), Value: m.number(m.Value),
		Limit: m.number(m.Limit), Detail: m.Detail, At: m.At.UTC(), Since: m.Since.UTC(), Subject: p.Subject(m), Text: p.Text(m), Link: p.link(m)}
	if !m.Until.IsZero() {
		until := m.Until.UTC()
		fields.Until = &until
	}
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err) // cannot be: texts, numbers and times
	}
	return line
}

// unit names the unit of the fields value and limit.
func (m *Message) unit() string {
	return map[Unit]string{Time: "seconds", Count: "count", Bytes: "bytes", Percent: "percent"}[m.Condition.Unit()]
}

func (m *Message) number(n int64) float64 {
	if m.Condition.Unit() == Time {
		return time.Duration(n).Seconds()
	}
	return float64(n)
}

func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// printable keeps what a line can show.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
