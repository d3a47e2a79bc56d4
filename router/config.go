package router

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/outbox"
)

// Config is what a Router is made of.
type Config struct {
	// Tables are the outbox tables of the pipeline, with their columns resolved. Without any, messages of every table are
	// taken as they are.
	Tables []outbox.Table
	// Options hold for all tables, over what their shapes bring; but route.topic.* only for those of shape debezium.
	Options Options
	// TableOptions override Options one by one for a table, by the table's index in Tables. It may be shorter than Tables.
	TableOptions []Options
	// TableRetry replaces Retry for messages of a table, on routes that set none of their own, by the table's index in Tables. It may be
	// shorter than Tables, and hold nil.
	TableRetry []*Retry
	// Routes are tried in order. Without any, everything goes to the only sink.
	Routes []RouteConfig
	// Sinks are the names of all sinks.
	Sinks []string
	// Retry and OnExhausted are the policy of routes that set none. The zero Retry is DefaultRetry.
	Retry       Retry
	OnExhausted OnExhausted
}

// RouteConfig is one entry of the configuration's routes.
type RouteConfig struct {
	// Name labels metrics; default: the sinks' names joined by "+".
	Name string
	// Match holds patterns by type, topic, table, group, tenant or header.NAME. All keys must match, each by one of its
	// patterns: a glob (* is any run of characters, ? one), or a regular expression between slashes. An absent text is empty,
	// but an absent header matches nothing. Without Match the route takes everything.
	Match map[string][]string
	To    []string
	// Retry, if not nil, replaces the pipeline's.
	Retry *Retry
	// OnExhausted, if not "", replaces the pipeline's.
	OnExhausted OnExhausted
}

// Problems is the error of New: all that is wrong with a Config.
type Problems []*Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Keys of the configuration that problems name.
const (
	keyRouter = "router"
	keyRoutes = "routes"
	keyTo     = "to"
)

// New makes a Router. The error is of type Problems.
func New(c Config) (*Router, error) {
	if c.Retry.zero() {
		c.Retry = DefaultRetry()
	}
	r := &Router{sinks: slices.Clone(c.Sinks), others: Route{Retry: c.Retry, OnExhausted: c.OnExhausted}}
	var problems Problems
	problems = append(problems, r.addShapers(&c)...)
	problems = append(problems, c.Retry.validate([]string{"retry"})...)
	problems = append(problems, c.OnExhausted.validate([]string{"on_exhausted"})...)
	problems = append(problems, r.addRoutes(&c)...)
	if len(problems) > 0 {
		return nil, problems
	}
	r.routeTables(&c)
	return r, nil
}

func (r *Router) addShapers(c *Config) []*Problem {
	shared, problems := c.Options.read([]string{keyRouter})
	if len(c.Tables) == 0 {
		r.all = &tableShaper{shaper: &shaper{}}
		return problems
	}
	debezium := false
	for i := range c.Tables {
		t := &c.Tables[i]
		debezium = debezium || t.Shape == shapeDebezium
		var ownOptions Options
		pathOf := func(option string) []string { return []string{keyRouter, option} }
		if i < len(c.TableOptions) && len(c.TableOptions[i]) > 0 {
			path := []string{"source", "tables", strconv.Itoa(i), keyRouter}
			_, bad := c.TableOptions[i].read(path)
			problems = append(problems, bad...)
			ownOptions = c.TableOptions[i]
			pathOf = func(option string) []string {
				if _, own := ownOptions[option]; own {
					return at(path, option)
				}
				return []string{keyRouter, option}
			}
		}
		own, _ := OptionsOf(t, c.Options, ownOptions).read(nil)
		s, bad := newShaper(t, shared, own, pathOf, func(key string) []string { return []string{"source", "tables", strconv.Itoa(i), key} })
		problems = append(problems, bad...)
		entry := tableShaper{name: t.String(), shaper: s}
		if t.Schema == "" {
			entry.name, entry.suffix = "."+t.Name, true
		}
		r.shapers = append(r.shapers, entry)
	}
	for _, name := range []string{"route.topic.regex", "route.topic.replacement", "route.topic.then.regex", "route.topic.then.replacement"} {
		if value, set := c.Options[name]; set && !debezium {
			problems = append(problems, &Problem{Path: []string{keyRouter, name}, Value: value,
				Reason: "has no effect: no table is of shape debezium, and others use their topic as it is; move it under a table, in source.tables"})
		}
	}
	return dedupe(problems)
}

// routeTables gives each table its routes: all of them, with its own retry on those that set none.
func (r *Router) routeTables(c *Config) {
	if r.all != nil {
		r.all.routes = r.routes
	}
	for i := range r.shapers {
		t := &r.shapers[i]
		t.routes = r.routes
		if i >= len(c.TableRetry) || c.TableRetry[i] == nil {
			continue
		}
		t.routes = make([]*Route, len(r.routes))
		for n, route := range r.routes {
			own := *route
			if n >= len(c.Routes) || c.Routes[n].Retry == nil {
				own.Retry = *c.TableRetry[i]
			}
			t.routes[n] = &own
		}
	}
}

// With returns the options overridden by others.
func (o Options) With(others Options) Options {
	merged := make(Options, len(o)+len(others))
	for _, from := range []Options{o, others} {
		for name, value := range from {
			merged[canonical(name)] = value
		}
	}
	return merged
}

// dedupe drops repetitions: a shared option is read once a table.
func dedupe(problems []*Problem) []*Problem {
	var kept []*Problem
	for _, p := range problems {
		if !slices.ContainsFunc(kept, func(k *Problem) bool { return k.Error() == p.Error() }) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (r *Router) addRoutes(c *Config) []*Problem {
	path := []string{keyRoutes}
	if len(c.Sinks) == 0 {
		return []*Problem{{Path: []string{"sinks"}, Reason: "is empty: name at least one sink"}}
	}
	if len(c.Routes) == 0 {
		if len(c.Sinks) > 1 {
			return []*Problem{{Path: path, Reason: "is missing: with several sinks, say which messages go to which; a route without match takes everything",
				Allowed: []string{"- {to: [" + strings.Join(c.Sinks, ", ") + "]}"}}}
		}
		r.routes = []*Route{{Name: c.Sinks[0], To: slices.Clone(c.Sinks), Retry: c.Retry, OnExhausted: c.OnExhausted}}
		return nil
	}
	var problems []*Problem
	names := map[string]int{}
	for i := range c.Routes {
		route, bad := newRoute(c, &c.Routes[i], at(path, strconv.Itoa(i)))
		problems = append(problems, bad...)
		if name := c.Routes[i].Name; name != "" {
			if before, taken := names[name]; taken {
				problems = append(problems, &Problem{Path: at(path, strconv.Itoa(i), "name"), Value: name,
					Reason: "is the name of route " + strconv.Itoa(before) + " already"})
			}
			names[name] = i
		}
		if len(r.routes) > 0 && len(c.Routes[i-1].Match) == 0 {
			problems = append(problems, &Problem{Path: at(path, strconv.Itoa(i)),
				Reason: "is never reached: the route before it has no match and takes everything; move that one to the end"})
		}
		r.routes = append(r.routes, route)
	}
	return problems
}

func newRoute(c *Config, rc *RouteConfig, path []string) (*Route, []*Problem) {
	route := &Route{Name: rc.Name, To: slices.Clone(rc.To), Retry: c.Retry, OnExhausted: c.OnExhausted}
	var problems []*Problem
	if route.Name == "" {
		route.Name = strings.Join(rc.To, "+")
	}
	if len(rc.To) == 0 {
		problems = append(problems, &Problem{Path: at(path, keyTo), Reason: "is missing: list the sinks of the route", Allowed: c.Sinks})
	}
	for i, name := range rc.To {
		switch {
		case !slices.Contains(c.Sinks, name):
			problems = append(problems, &Problem{Path: at(path, keyTo), Value: name, Reason: "is not the name of a sink", Allowed: c.Sinks})
		case slices.Contains(rc.To[:i], name):
			problems = append(problems, &Problem{Path: at(path, keyTo), Value: name, Reason: "names the sink twice"})
		}
	}
	if rc.Retry != nil {
		route.Retry = *rc.Retry
		problems = append(problems, rc.Retry.validate(at(path, "retry"))...)
	}
	if rc.OnExhausted != "" {
		route.OnExhausted = rc.OnExhausted
		problems = append(problems, rc.OnExhausted.validate(at(path, "on_exhausted"))...)
	}
	match, bad := newMatcher(rc.Match, at(path, "match"))
	route.match = match
	return route, append(problems, bad...)
}
