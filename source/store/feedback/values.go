package feedback

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// mayLog reports whether the value of a feedback parameter that is no column may be logged.
func mayLog(name string) bool {
	return slices.Contains([]string{"id", "type", "group", "topic", "table", "position", "outcome", "sink", "attempt", "class"}, name)
}

var quotedValue = regexp.MustCompile(`"[^"]*"|'[^']*'`)

const (
	concealed = "…"
	// telling is the shortest part of a value that is concealed: a shorter one would be found in many words.
	telling = 3
)

// withoutValues removes values of messages from an error. Servers quote the values that they refuse, sometimes only the beginning, and tailbox logs
// errors.
func withoutValues(why error, ts ...Told) error {
	text := why.Error()
	for i := range ts {
		t := &ts[i]
		if t.Feedback == nil {
			continue
		}
		statement := strings.Join(t.Texts, "")
		for _, p := range t.Params {
			value, null := p.Value(&t.Outcome)
			if null || value == "" || !p.Column && mayLog(p.Name) {
				continue
			}
			if len(value) >= telling && !strings.Contains(statement, value) { // the value may contain a quote, or the error may show it without quotes
				text = strings.ReplaceAll(text, value, concealed)
			}
			text = quotedValue.ReplaceAllStringFunc(text, func(quoted string) string {
				part := strings.TrimSuffix(quoted[1:len(quoted)-1], "...")
				if strings.Contains(statement, part) || part != value && (len(part) < telling || !strings.Contains(value, part)) {
					return quoted
				}
				return quoted[:1] + concealed + quoted[:1]
			})
		}
	}
	if text == why.Error() {
		return why
	}
	return errors.New(text)
}
