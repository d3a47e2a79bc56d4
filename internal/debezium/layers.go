package debezium

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tailbox/tailbox/internal/debezium/forms"
	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// A layer is what one file holds.
type layer struct {
	name     string
	settings []*setting
}

func (l *layer) has(key string) bool {
	return slices.ContainsFunc(l.settings, func(s *setting) bool { return s.key == key })
}

// setApart lists the options of Debezium Server that a connector has, among a layer's settings from a place on: Debezium does not know them there.
func (c *conversion) setApart(l *layer, from int) {
	var own []*setting
	for _, s := range l.settings[from:] {
		if name, _ := inProfile(s.key); strings.HasPrefix(name, serverPrefix) {
			c.out.ignored(s, unheardOf)
		} else {
			own = append(own, s)
		}
	}
	l.settings = append(l.settings[:from], own...)
}

// putTo is the address that a request sends the options of a connector to. It names the connector. remark is a line that is a comment, and noRequests the name
// of a file that holds no requests.
var (
	putTo      = lazyregexp.New(`/connectors/"?([\w.${}-]+)"?/config\b`)
	remark     = lazyregexp.New(`(?m)^\s*(?:#|//)[^\n]*`)
	noRequests = lazyregexp.New(`(?i)\.(?:ya?ml|properties|env)$`)
)

// nameFromAddress takes the name of a connector from the only such address in a script or a collection of requests, if its options have none. It returns
// a name that holds a variable, which is not read.
func (l *layer) nameFromAddress(text []byte) (variable *setting) {
	if !l.has("connector.class") || l.has("name") || noRequests().MatchString(l.name) {
		return nil
	}
	text = remark().ReplaceAll(text, nil)
	var name *setting
	for _, address := range putTo().FindAllSubmatch(text, -1) {
		found := &setting{key: "name", raw: forms.Followed(string(address[1]), text), file: l.name}
		if name = cmp.Or(name, found); name.raw != found.raw {
			return nil
		}
	}
	if name != nil && strings.ContainsAny(name.raw, "${}") {
		return name
	}
	if name != nil {
		l.settings = append(l.settings, name)
	}
	return nil
}

// bareConnector reports whether settings are a connector's options alone, though Debezium Server's may be among them.
func bareConnector(settings []*setting) bool {
	l := layer{settings: settings}
	return l.has("connector.class") && !l.has(serverPrefix+"source.connector.class") && !l.has(serverPrefix+"sink.type")
}

// Prefixes of settings that are filed only to be listed as without effect, or for others to refer to.
const (
	// otherPrefix begins what is not Debezium's, though its options may refer to it.
	otherPrefix = "other."
	// profilePrefix begins the keys of options of a profile of Quarkus that is not in force.
	profilePrefix = "profile."
)

// file files a setting under a key. What another place set counts no more.
func (c *conversion) file(key string, s *setting) {
	if before := c.settings[key]; before != nil && before != s {
		before.override(s)
	}
	c.settings[key] = s
}

// override notes that another setting counts.
func (s *setting) override(by *setting) {
	place := by.file
	if by.line > 0 {
		place += ":" + strconv.Itoa(by.line)
	}
	s.idle = "it is set again in " + place + ", and that counts"
}

// merge makes one configuration of the files. Which of several counts is not the same in Debezium Server and in Kafka Connect.
func (c *conversion) merge() {
	c.server = c.variables.serve(false)
	for _, l := range c.layers {
		for _, s := range l.settings {
			name, _ := inProfile(s.key)
			c.server = c.server || strings.HasPrefix(name, serverPrefix)
		}
	}
	if c.server {
		c.mergeServer()
	} else {
		c.mergeConnect()
	}
	for _, l := range c.layers {
		if !slices.Contains(c.names, l.name) {
			c.names = append(c.names, l.name)
		}
	}
}

// inProfile splits the profile of Quarkus from a key, as in %prod.debezium.sink.type. profiles is nil if the key has none.
func inProfile(key string) (name string, profiles []string) {
	rest, ok := strings.CutPrefix(key, "%")
	if !ok {
		return key, nil
	}
	if list, name, ok := strings.Cut(rest, "}."); ok && strings.HasPrefix(list, "{") {
		return name, commas(list[1:])
	}
	profile, name, _ := strings.Cut(rest, ".")
	return name, []string{profile}
}

// profileKey is the option that names the profile of Quarkus that Debezium Server runs in.
const profileKey = "quarkus.profile"

// profile returns the profile of Quarkus that Debezium Server runs in, whose options count before those of none.
func (c *conversion) profile() string {
	for _, l := range c.layers {
		for _, s := range l.settings {
			if s.key == profileKey {
				c.file(profileKey, s)
			}
		}
	}
	c.fromVariables([]string{profileKey})
	if s := c.settings[profileKey]; s != nil {
		if name, _ := c.resolve(profileKey, s.raw, true); name != "" {
			return name
		}
	}
	return "prod"
}

// mergeServer files Debezium Server's options under their keys without its prefix. Later ones win, but those of the profile win over those of none.
func (c *conversion) mergeServer() {
	c.inForce = c.profile()
	inForce := map[string]bool{}
	for _, l := range c.layers {
		for _, s := range l.settings {
			name, profiles := inProfile(s.key)
			if profiles != nil && !slices.Contains(profiles, c.inForce) {
				c.file(profilePrefix+s.key, s)
				continue
			}
			key, ours := strings.CutPrefix(name, serverPrefix)
			if !ours && !strings.HasPrefix(name, "quarkus.") {
				key = otherPrefix + name
			}
			if profiles == nil && inForce[key] {
				s.override(c.settings[key])
				continue
			}
			c.file(key, s)
			inForce[key] = profiles != nil
		}
	}
	c.fromSource()
}

// fromSource files options of the source that Debezium Server hands to its engine under the name of others: transformations, and options of converters, which are
// those of formats. The options of these names themselves count first.
func (c *conversion) fromSource() {
	for _, key := range slices.Sorted(maps.Keys(c.settings)) {
		name, ok := strings.CutPrefix(key, "source.")
		if part := converterOf(name); ok && part != "" {
			name = "format." + strings.Replace(name, ".converter.", ".", 1)
		} else if !ok || !strings.HasPrefix(name, "transforms") && !strings.HasPrefix(name, "predicates") {
			continue
		}
		s, other := c.settings[key], c.settings[name]
		delete(c.settings, key)
		if other != nil && !strings.HasPrefix(other.key, serverPrefix+"source.") {
			s.override(other)
			continue
		}
		c.file(name, s)
	}
}

// mergeConnect files a connector's options, and its worker's where the connector has none. The files' order does not tell which is which.
func (c *conversion) mergeConnect() {
	var connectors, workers []*layer
	for _, l := range c.layers {
		if l.has("connector.class") {
			connectors = append(connectors, l)
		} else {
			workers = append(workers, l)
		}
	}
	c.layers = append(workers, connectors...)
	if len(connectors) > 1 {
		connectors = c.onlyRouted(connectors)
	}
	for _, l := range workers {
		for _, s := range l.settings {
			if c.defaultsIn == debeziumsImage && s.overwritten != "" {
				s.key = "$" + s.overwritten
				c.out.ignored(s, "Debezium's image overwrites it from "+strings.TrimPrefix(s.overwritten, "CONNECT_")+", or from that variable's default")
				continue
			}
			if len(connectors) > 0 && !ofConverter(s.key) && !ofWorker(s.key) {
				c.out.ignored(s, "Kafka Connect passes no such option of its worker on to a connector")
				continue
			}
			c.file(connectKey(s.key), s)
		}
	}
	c.converterDefaults()
	for _, l := range connectors {
		c.dropConverters(l)
		for _, s := range l.settings {
			switch part := converterOf(s.key); {
			case part != "" && !l.has(part):
				c.out.ignored(s, "the connector does not name this converter, so that all its options come from the worker")
			case ofWorker(s.key):
				c.out.ignored(s, "Kafka Connect takes it from its worker alone")
			default:
				c.file(connectKey(s.key), s)
			}
		}
	}
}

// ofWorker reports whether Kafka Connect takes an option from its worker, and ignores it in a connector.
func ofWorker(key string) bool {
	return key == "bootstrap.servers" || key == "topic.creation.enable" || key == "exactly.once.source.support" || strings.HasPrefix(key, "config.providers") ||
		strings.HasPrefix(key, "producer.") && !strings.HasPrefix(key, "producer.override.")
}

// onlyRouted takes the only one of several connectors that has an outbox event router.
func (c *conversion) onlyRouted(all []*layer) []*layer {
	var routed []*layer
	var names []string
	for _, l := range all {
		if l.routes() {
			routed = append(routed, l)
		}
		names = append(names, l.name)
	}
	for _, l := range all {
		switch {
		case len(routed) == 1 && l == routed[0]:
			continue
		case len(routed) == 1:
			c.out.ignored(&setting{key: "connector " + l.name}, "it has no outbox event router")
		}
		l.settings = nil
	}
	if len(routed) != 1 {
		c.form(&layer{}, severalConnectors("these files hold", names, len(routed)))
	}
	return routed
}

// routes reports whether a layer has an outbox event router.
func (l *layer) routes() bool {
	return slices.ContainsFunc(l.settings, func(s *setting) bool { return strings.HasSuffix(s.raw, "EventRouter") })
}

// dropConverters takes the options of the worker's converters away that a connector has converters of its own for: Kafka Connect makes
// a converter of the options of one of the two, and mixes nothing.
func (c *conversion) dropConverters(connector *layer) {
	for _, key := range slices.Sorted(maps.Keys(c.settings)) {
		if part := converterOf(key); part != "" && connector.has(part) {
			c.out.ignored(c.settings[key], "the connector names this converter, so that all its options come from there")
			delete(c.settings, key)
		}
	}
}

// converterOf is the key of the converter that an option belongs to, "" for others.
func converterOf(key string) string {
	for _, part := range converters() {
		if strings.HasPrefix(key, part+".") {
			return part
		}
	}
	return ""
}

func converters() []string { return []string{"key.converter", "value.converter", "header.converter"} }

// connectKey is where an option of Kafka Connect is filed: what a connector calls its own gets source, as in Debezium Server.
func connectKey(key string) string {
	switch {
	case ofConverter(key), strings.HasPrefix(key, "transforms"), strings.HasPrefix(key, "predicates"):
		return key
	}
	return "source." + key
}
