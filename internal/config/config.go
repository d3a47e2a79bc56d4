// Package config is the format of tailbox.yaml: strict, with the environment put in, and with everything that is wrong
// told at once, each with its key path, its line, the value and what is allowed. It has no behaviour, and knows no kind of
// sink: a sink's keys are handed out as a Section.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/source"
)

// Config is what a file says, with defaults filled in. The tags tell the keys that make a field, and whether a relay that runs can take another value
// (live) or not (fixed); see Fixed.
type Config struct {
	// Pipeline names the lock, slot, publication and the rows of tailbox_*.
	Pipeline string `fixed:"pipeline"`
	Source   Source `section:"source"`
	// Router is made of the sections router, routes and sinks; nil if they are wrong.
	Router *router.Router `live:"router,routes,retry,on_exhausted"`
	// Sinks in the file's order.
	Sinks []Sink `live:"sinks"`
	// Memory bounds everything queued, MaxMessage one message; in bytes.
	Memory          int64         `live:"memory"`
	MaxMessage      int64         `fixed:"max_message"`
	ShutdownTimeout time.Duration `live:"shutdown_timeout"`
	Admin           Admin         `section:"admin"`
	Alerts          Alerts        `live:"alerts"`
	Log             Log           `section:"log"`
}

// Source is the section source.
type Source struct {
	Kind string `fixed:"kind"`
	// URL and LockURL may hold a password.
	URL         string `fixed:"url,url_file"`
	LockURL     string `fixed:"lock_url,lock_url_file"`
	Slot        string `fixed:"slot"`
	Publication string `fixed:"publication"`
	Failover    bool   `fixed:"failover"`
	// TakeOver: where the pipeline has no position yet, it is that of the slot, which somebody else made.
	TakeOver bool `fixed:"take_over"`
	// LeftOff is where another reader of the log stopped, from which a pipeline of MySQL, MariaDB or MongoDB goes on if it has no position yet.
	LeftOff source.LeftOff `fixed:"take_over"`
	// ServerID is for mysql and mariadb; 0 = one is chosen.
	ServerID uint32 `fixed:"server_id"`
	Schema   string `fixed:"schema"`
	// Start is "pending", "now" or "".
	Start string `fixed:"start"`
	// Poll: the table is polled (read: poll), instead of the log read.
	Poll bool `fixed:"read"`
	// Reconcile is 0 for never.
	Reconcile time.Duration `fixed:"reconcile"`
	// Cleanup is how often delivered rows whose retention is over are removed.
	Cleanup time.Duration  `fixed:"cleanup_interval"`
	Tables  []outbox.Table `fixed:"tables"`
	// Messages is the prefix of messages that are written by pg_logical_emit_message, into no table; "" = none.
	Messages string `fixed:"messages"`
	// OnUpdate is the level at which updates of outbox rows are logged; nil = they are only counted. The router's options say so.
	OnUpdate *slog.Level `fixed:"tables"`
}

// Sink is one entry of the section sinks. Section holds the keys of its kind: the one who makes the sink reads them and
// calls its Done.
type Sink struct {
	Name, Kind string
	Section    *Section
}

// Log is the section log.
type Log struct {
	Level slog.Level `live:"level"`
	// JSON instead of text.
	JSON bool `fixed:"format"`
}

const (
	defaultListen          = "127.0.0.1:8480"
	defaultMemory          = 64 << 20
	defaultMaxMessage      = 16 << 20
	defaultShutdownTimeout = 30 * time.Second
	defaultReconcile       = 5 * time.Minute
	defaultCleanup         = time.Hour
)

// Load reads a file. The error says that it could not be read, or is no YAML; what else is wrong is collected by the
// File, whose Err is to be asked once the sinks' sections are read too.
func Load(name string, env func(string) (string, bool)) (*Config, *File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	return Read(name, data, env)
}

// Read does the same with the file's content.
func Read(name string, data []byte, env func(string) (string, bool)) (*Config, *File, error) {
	f, err := Parse(name, data, env)
	if err != nil {
		return nil, nil, err
	}
	top := f.Top()
	c := &Config{Pipeline: "default"}
	c.Pipeline = top.name("pipeline", c.Pipeline)
	rc := router.Config{}
	if options := top.Section("router"); options != nil {
		rc.Options = options.options()
	}
	c.Source, rc.TableOptions = readSource(top.Section("source"), c.Pipeline, rc.Options)
	if !top.Has("source") {
		top.Add("source", "", "is missing: say where the outbox is, as in `source: {kind: postgres, url: postgres://…}`")
	}
	rc.Tables = slices.Clone(c.Source.Tables)
	if c.Source.Messages != "" {
		rc.Tables = append(rc.Tables, outbox.LogMessageTable(c.Source.Messages))
		for len(rc.TableOptions) < len(c.Source.Tables) {
			rc.TableOptions = append(rc.TableOptions, nil)
		}
		// What the options of all tables place may be columns that only tables have.
		rc.TableOptions = append(rc.TableOptions, router.Options{"table.field.additional.missing": "ignore"})
	}
	c.Sinks = readSinks(top)
	for _, s := range c.Sinks {
		rc.Sinks = append(rc.Sinks, s.Name)
	}
	rc.Retry = readRetry(top.orEmpty("retry"), baseRetry(c.Source.Tables))
	if !top.Has("retry") {
		if rc.TableRetry = tableRetry(c.Source.Tables); severalShapes(c.Source.Tables) {
			top.forget("retry") // each table has that of its shape
		}
	}
	rc.OnExhausted = router.OnExhausted(top.String("on_exhausted", ""))
	rc.Routes = readRoutes(top, rc.Retry)
	if !top.Has("routes") {
		top.item("routes", 0).keep("to", rc.Sinks)
	}
	if slices.ContainsFunc(rc.Routes, func(r router.RouteConfig) bool { return r.Match["type"] != nil }) {
		for i := range c.Source.Tables {
			c.Source.Tables[i].NeedsType = c.Source.Tables[i].Columns.Type != ""
		}
	}
	c.Memory = top.Size("memory", defaultMemory, 1<<20)
	c.MaxMessage = top.Size("max_message", min(defaultMaxMessage, c.Memory), 1<<10)
	if c.MaxMessage > c.Memory {
		top.Add("max_message", top.String("max_message", ""), "must not be above memory, which is "+fmt.Sprint(c.Memory)+" bytes")
	}
	c.ShutdownTimeout = top.Positive("shutdown_timeout", defaultShutdownTimeout)
	c.Admin = readAdmin(top.orEmpty("admin"))
	for i := range c.Source.Tables {
		c.Source.Tables[i].Writes = c.Admin.Send
	}
	c.Alerts = readAlerts(top.Section("alerts"), c.Sinks)
	if to := delivering(rc.Sinks, c.Alerts.To); !top.Has("routes") && len(to) == 1 && len(to) < len(rc.Sinks) {
		rc.Routes = []router.RouteConfig{{Name: to[0], To: to}}
	}
	c.Log = readLog(top.orEmpty("log"))
	top.Done()
	f.makeRouter(c, rc)
	return c, f, nil
}

// makeRouter hands the router its part, and takes over what it finds wrong.
func (f *File) makeRouter(c *Config, rc router.Config) {
	r, err := router.New(rc)
	if err == nil {
		c.Router = r
		return
	}
	if problems, ok := errors.AsType[router.Problems](err); ok {
		for _, p := range problems {
			f.Add(p.Path, p.Value, p.Reason, p.Allowed...)
		}
		return
	}
	f.Add([]string{"routes"}, "", err.Error())
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,49}$`)

const nameReason = "must match [a-z][a-z0-9_-]{0,49}: a small letter, then at most 49 small letters, digits, _ or -"

// name reads a name of a pipeline.
func (s *Section) name(key, byDefault string) string {
	name := s.String(key, byDefault)
	if !namePattern.MatchString(name) {
		s.Add(key, name, nameReason)
		return byDefault
	}
	return name
}

// options reads options of Debezium's; a list is joined by commas.
func (s *Section) options() router.Options {
	options := router.Options{}
	for _, name := range s.Keys() {
		if !s.Has(name) {
			continue
		}
		options[name] = strings.Join(s.Strings(name), ",")
		s.keep(name, options[name])
	}
	return options
}

func readSinks(top *Section) []Sink {
	all := top.Section("sinks")
	if all == nil {
		return nil
	}
	var sinks []Sink
	for _, name := range all.Keys() {
		if !namePattern.MatchString(name) {
			all.Add(name, "", "as the name of a sink "+nameReason)
		}
		section := all.Section(name)
		if section == nil {
			if !all.Has(name) {
				all.Add(name, "", "is empty: a sink needs at least its kind")
			}
			section = all.file.section(emptyNode(), all.at(name))
		}
		sinks = append(sinks, Sink{Name: name, Kind: section.String("kind", ""), Section: section})
	}
	return sinks
}

// placeholder matches tokens that are there to be replaced.
var placeholder = regexp.MustCompile(`(?i)^<?(change|replace)[-_ ]?(me|this|it)>?$`)

func readLog(s *Section) Log {
	defer s.Done()
	var l Log
	switch s.Choice("level", "info", "debug", "info", "warn", "error") {
	case "debug":
		l.Level = slog.LevelDebug
	case "warn":
		l.Level = slog.LevelWarn
	case "error":
		l.Level = slog.LevelError
	}
	l.JSON = s.Choice("format", "text", "text", "json") == "json"
	return l
}
