package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/tailbox/tailbox/router"
)

func readRoutes(top *Section, retry router.Retry) []router.RouteConfig {
	var routes []router.RouteConfig
	for _, s := range top.Sections("routes") {
		if s == nil {
			continue
		}
		route := router.RouteConfig{Name: s.String("name", ""), To: s.Strings("to"),
			OnExhausted: router.OnExhausted(s.String("on_exhausted", ""))}
		if own := s.Section("retry"); own != nil {
			merged := readRetry(own, retry)
			route.Retry = &merged
		}
		if match := s.Section("match"); match != nil {
			route.Match = map[string][]string{}
			for _, key := range match.Keys() {
				route.Match[key] = match.Strings(key)
			}
			if len(route.Match) == 0 {
				s.Add("match", "", "is empty: leave it out to match everything")
			}
		}
		s.Done()
		routes = append(routes, route)
	}
	if top.Has("routes") && len(routes) == 0 {
		top.Add("routes", "", "is empty: list at least one route, or leave it out")
	}
	return routes
}

// readRetry reads a retry over the one it is based on. The keys of the exponential backoff put a schedule away.
func readRetry(s *Section, base router.Retry) router.Retry {
	defer s.Done()
	r := router.Retry{Attempts: s.Int("attempts", base.Attempts, 1, 1_000_000),
		Initial: s.Duration("initial", base.Initial), Factor: s.Float("factor", base.Factor),
		Max: s.Duration("max", base.Max), Jitter: s.String("jitter", base.Jitter),
		DuringOutage: s.String("during_outage", base.DuringOutage)}
	// Where only the first delay is set, above the inherited bound, the bound gives way, and the other way round.
	if r.Max < r.Initial && s.Has("initial") != s.Has("max") {
		if s.Has("initial") {
			r.Max = r.Initial
		} else {
			r.Initial = r.Max
		}
	}
	r.Schedule = s.durations("schedule")
	s.keep("initial", r.Initial)
	s.keep("max", r.Max)
	if len(r.Schedule) > 0 {
		s.forget("initial", "factor", "max", "jitter")
		for _, key := range []string{"initial", "factor", "max", "jitter"} {
			if s.Has(key) {
				s.Add(key, "", "has no effect beside schedule, which gives the delays one by one: keep one of the two")
			}
		}
		return r
	}
	if !s.Has("initial") && !s.Has("factor") && !s.Has("max") && !s.Has("jitter") {
		if r.Schedule = base.Schedule; len(r.Schedule) > 0 {
			s.keep("schedule", durationTexts(r.Schedule))
			s.forget("initial", "factor", "max", "jitter")
		}
	}
	return r
}

// durations reads a list of durations.
func (s *Section) durations(key string) []time.Duration {
	texts := s.Strings(key)
	if s.Has(key) && len(texts) == 0 {
		s.Add(key, "", "is empty: list the delays, as in [2m, 4m, 8m]")
	}
	var ds []time.Duration
	for i, text := range texts {
		d, err := parseDuration(text)
		if err != nil {
			s.file.Add(s.at(key, strconv.Itoa(i)), text, err.Error())
			continue
		}
		ds = append(ds, d)
	}
	return ds
}

// UnknownKind reports that the sink's kind is none of the available ones. A reserved kind belongs to a version to come.
func (s *Sink) UnknownKind(available, reserved []string) {
	switch {
	case s.Kind == "":
		s.Section.Add("kind", "", "is missing: say what kind of sink this is", available...)
	case slices.Contains(reserved, s.Kind):
		s.Section.Add("kind", s.Kind, "is not built into this version; available: "+strings.Join(available, ", "))
	default:
		s.Section.Add("kind", s.Kind, "is unknown", available...)
	}
}

// emptyNode stands for a section that is missing.
func emptyNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }
