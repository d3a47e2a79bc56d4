package config

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/internal/alert"
)

// Alerts is the section alerts.
type Alerts struct {
	// To are the names of the sinks that alerts are sent through; none: there are no alerts.
	To []string
	// Repeat is after how long an alert is sent again, 0 = never; Steady is that of alert.Config.
	Repeat, Steady time.Duration
	Limits         alert.Limits
}

const (
	defaultRepeat = 4 * time.Hour
	defaultSteady = time.Minute
	off           = "off"
)

// alertKinds are the kinds of sinks that alerts can be sent through.
func alertKinds() []string { return []string{"http", "slack", "smtp"} }

func readAlerts(s *Section, sinks []Sink) Alerts {
	a := Alerts{Repeat: defaultRepeat, Steady: defaultSteady, Limits: alert.DefaultLimits()}
	if s == nil {
		return a
	}
	defer s.Done()
	a.To = s.Strings("to")
	if len(a.To) == 0 {
		s.Add("to", "", "is missing: list the sinks that alerts are sent through, of kind "+strings.Join(alertKinds(), ", "))
	}
	for i, name := range a.To {
		checkTo(s, a.To[:i], name, sinks)
	}
	a.Repeat = parsed(s, "repeat", defaultRepeat, func(v string) (time.Duration, error) {
		if v == off {
			return 0, nil
		}
		return positive(v)
	})
	a.Steady = s.Duration("steady", defaultSteady)
	for _, c := range alert.Conditions() {
		a.Limits[c] = parsed(s, c.String(), a.Limits[c], func(v string) (alert.Limit, error) { return parseLimit(c, v) })
	}
	return a
}

// checkTo checks one name of the list, which follows those before it.
func checkTo(s *Section, before []string, name string, sinks []Sink) {
	path := s.at("to", strconv.Itoa(len(before)))
	at := slices.IndexFunc(sinks, func(one Sink) bool { return one.Name == name })
	switch {
	case at < 0:
		var names []string
		for _, one := range sinks {
			names = append(names, one.Name)
		}
		s.file.Add(path, name, "is not the name of a sink: declare it under sinks", names...)
	case slices.Contains(before, name):
		s.file.Add(path, name, "stands twice: keep one")
	case sinks[at].Kind != "" && !slices.Contains(alertKinds(), sinks[at].Kind):
		s.file.Add(path, name, "is a sink of kind "+sinks[at].Kind+", through which no alert can be sent: name one of kind "+strings.Join(alertKinds(), ", "))
	}
}

// parseLimit reads the limit of a condition.
func parseLimit(c alert.Condition, v string) (l alert.Limit, err error) {
	if v == off {
		return alert.Limit{Off: true}, nil
	}
	switch c.Unit() {
	case alert.Time:
		var d time.Duration
		d, err = positive(v)
		l.Value = int64(d)
	case alert.Bytes:
		if l.Value, err = parseSize(v); err != nil || l.Value == 0 {
			err = errors.New("must be a size above 0 such as 1GiB, or off")
		}
	case alert.Percent:
		number, is := strings.CutSuffix(v, "%")
		if l.Value, err = strconv.ParseInt(number, 10, 8); err != nil || !is || l.Value < 1 || l.Value > 100 {
			err = errors.New("must be a share from 1% to 100%, or off")
		}
	default:
		least := int64(0)
		if c.Least() {
			least = 1
		}
		if l.Value, err = strconv.ParseInt(v, 10, 32); err != nil || l.Value < least {
			err = errors.New("must be a number of at least " + strconv.FormatInt(least, 10) + ", or off")
		}
	}
	return l, err
}

// positive reads a duration above 0s.
func positive(v string) (time.Duration, error) {
	d, err := parseDuration(v)
	if err == nil && d == 0 {
		err = errors.New("must be above 0s")
	}
	if err != nil {
		err = errors.New(err.Error() + ", or off")
	}
	return d, err
}

// delivering are the sinks that messages can go to without a route that says so: those that alerts are sent through are left out, unless there is no other.
func delivering(sinks, alerts []string) []string {
	rest := slices.DeleteFunc(slices.Clone(sinks), func(name string) bool { return slices.Contains(alerts, name) })
	if len(rest) == 0 {
		return sinks
	}
	return rest
}

// readConsoleURL reads the address under which people reach the console.
func readConsoleURL(s *Section) string {
	text := s.String("url", "")
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		s.Add("url", "", "must be the address under which people reach the console, such as https://relay.example.org, without user, query and fragment")
		return ""
	}
	return text
}
