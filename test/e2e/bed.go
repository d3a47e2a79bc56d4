package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

// A Bed is what a relay works on: a database with outbox tables, and a configuration file.
type Bed struct {
	Kind string // as source.kind
	// One of them is the server, by kind.
	PG    *servers.PG
	My    *servers.My
	Mongo *servers.MongoServer

	DB         string
	Dir        string
	ConfigFile string
	LogFile    string
	Rand       *rand.Rand // for the test's own goroutine; seeded
	Seed       uint64

	tb       testing.TB
	database database
	relays   []*Relay
	name     string // of slots; unique on the server
	lastID   atomic.Int64
}

// Options of a Bed.
type Options struct {
	// Kind of the source, as source.kind: postgres (the default), mysql, mariadb, mongodb.
	Kind string
	// Own asks for a server of its own, which the test may kill; else the shared one is used.
	Own bool
	// Settings of an own server; MongoSettings where that is MongoDB.
	Settings      []servers.Option
	MongoSettings []servers.MongoOption
	// Topic that all messages go to, where the sink has topics. Default "events".
	Topic string
	// Schema in place of the tables of SchemaPostgres or SchemaMySQL; SLOT in it becomes the name of the truth's slot.
	Schema string
	// Tables in place of the configuration of the tables.
	Tables string
	// URL of the database for the relay, given the bed; nil = over TCP.
	URL func(*Bed) string
	// Source and Top are further lines of the configuration, in the section source and at its top, such as reconcile: 1s.
	Source, Top []string
	// Sinks are the lines below sinks.
	Sinks []string
}

// NewBed makes tables and configuration, and notes where the truth begins. It does not run `tailbox init`.
func NewBed(tb testing.TB, o Options) *Bed {
	tb.Helper()
	b := &Bed{tb: tb, Kind: o.Kind, Seed: seed(tb)}
	if b.Kind == "" {
		b.Kind = "postgres"
	}
	b.Rand = rand.New(rand.NewPCG(b.Seed, 0))
	b.name = fmt.Sprintf("%08x", rand.Uint32())
	b.Dir = b.keep()
	b.ConfigFile = filepath.Join(b.Dir, "tailbox.yaml")
	b.LogFile = filepath.Join(b.Dir, "log")
	switch b.Kind {
	case "postgres":
		b.database = newPostgres(b, &o)
	case "mysql", "mariadb":
		b.database = newMySQL(b, &o)
	case "mongodb":
		b.database = newMongo(b, &o)
	default:
		tb.Fatalf("make a bed: source kind %q is unknown", b.Kind)
	}
	b.Configure(o)
	tb.Cleanup(b.end)
	return b
}

// keep makes the bed's directory: temporary, or kept where the environment says.
func (b *Bed) keep() string {
	root := os.Getenv("TAILBOX_E2E_KEEP")
	if root == "" {
		return b.tb.TempDir()
	}
	dir := filepath.Join(root, strings.ReplaceAll(b.tb.Name(), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.tb.Fatal(err)
	}
	return dir
}

// seed is the test's seed: the environment's, else a new one.
func seed(tb testing.TB) uint64 {
	tb.Helper()
	s := rand.Uint64()
	if text := os.Getenv("TAILBOX_E2E_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			tb.Fatalf("TAILBOX_E2E_SEED: %v", err)
		}
	}
	tb.Logf("TAILBOX_E2E_SEED=%d", s)
	return s
}

// Slot is a name for a slot that no other bed of the server has.
func (b *Bed) Slot(purpose string) string { return "e2e_" + purpose + "_" + b.name }

// Configure writes the configuration file anew; a running relay has read the old one.
func (b *Bed) Configure(o Options) {
	b.tb.Helper()
	b.ConfigureAs(b.ConfigFile, o)
}

// ConfigureAs writes a configuration to another file, for a second relay of the same pipeline.
func (b *Bed) ConfigureAs(path string, o Options) {
	b.tb.Helper()
	if o.Topic == "" {
		o.Topic = "events"
	}
	if o.Tables == "" {
		o.Tables = bothTables(b.Kind)
	}
	url := b.database.url()
	if o.URL != nil {
		url = o.URL(b)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "pipeline: e2e\nsource:\n  kind: %s\n  url: %q\n", b.Kind, url)
	for _, line := range append(b.database.source(), o.Source...) {
		fmt.Fprintln(&text, "  "+line)
	}
	fmt.Fprintf(&text, "  tables:%s", strings.ReplaceAll(o.Tables, "TOPIC", o.Topic))
	top := strings.Join(o.Top, "\n")
	fmt.Fprintln(&text, top)
	if !strings.Contains("\n"+top, "\nadmin:") {
		fmt.Fprintln(&text, `admin: {listen: "off"}`)
	}
	fmt.Fprintln(&text, "sinks:\n  "+strings.Join(o.Sinks, "\n  "))
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.tb.Fatal(err)
	}
}

// bothTables is the configuration of the two tables of a bed. Rows of outbox are deleted when they are delivered, rows of events
// are marked.
func bothTables(kind string) string {
	schema := ""
	if kind == "postgres" {
		schema = "public."
	}
	return `
    - name: ` + schema + `outbox
      shape: debezium
      router: {route.topic.replacement: TOPIC}
    - name: ` + schema + `events
      shape: tailbox
`
}

// end stops what is left, and shows the logs of a test that failed.
func (b *Bed) end() {
	for _, r := range b.relays {
		r.Kill()
	}
	if b.tb.Failed() {
		b.tb.Log(Tail(b.LogFile, 40))
	}
}

// context ends with the test.
func (b *Bed) context() context.Context { return b.tb.Context() }

// Eventually polls until ask says "", which tells what is still missing; then the test fails with that.
func (b *Bed) Eventually(most time.Duration, ask func() string) {
	b.tb.Helper()
	if missing := within(most, ask); missing != "" {
		b.tb.Fatalf("after %v: %s", most, missing)
	}
}

// within asks until nothing is missing, or most is over, and returns what is missing then.
func within(most time.Duration, ask func() string) (missing string) {
	deadline := time.After(most)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if missing = ask(); missing == "" {
			return ""
		}
		select {
		case <-deadline:
			return missing
		case <-tick.C:
		}
	}
}

// Pause waits for d, during which the system under test works on its own: the length of a trial, not a wait for an event.
func Pause(d time.Duration) { <-time.After(d) }
