package verbs

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/cmd/tailbox/pipeline"
	"github.com/tailbox/tailbox/internal/client"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
)

// A desk is where operators look and ask: the database, or the API of a relay. But for the last three, the methods are those of operate.Operator.
type desk interface {
	Ask(ctx context.Context, r *checkpoint.Request) (id int64, err error)
	Wait(ctx context.Context, id int64) (*store.RequestResult, error)
	Result(ctx context.Context, id int64) (result *store.RequestResult, done bool, err error)
	Asked(ctx context.Context, before int64, limit int, whole bool) ([]store.Asked, error)
	Parked(ctx context.Context, sel checkpoint.Selection, limit int) (list []store.Listed, more bool, err error)
	ParkedSince(ctx context.Context, sel checkpoint.Selection, since time.Time, limit int) (list []store.Listed, more bool, err error)
	AllNewest(ctx context.Context, sel checkpoint.Selection, during operate.Span, limit int) (list []store.Listed, more bool, err error)
	Whole(ctx context.Context, sel checkpoint.Selection) (list []store.Listed, more bool, err error)
	Summarize(ctx context.Context, states []checkpoint.State, by []operate.Cause) (*operate.Summary, error)
	Lanes(ctx context.Context, sel checkpoint.Selection, after checkpoint.Lane, limit int) (lanes []operate.WaitingLane, next *checkpoint.Lane, err error)
	// Status reads the status, with every sink of the configuration in it. Sinks names those, and Configuration is YAML with secrets masked.
	Status(ctx context.Context) (*report.Status, error)
	Sinks(ctx context.Context) ([]string, error)
	Configuration(ctx context.Context) (string, error)
}

// database is the desk of those who have the configuration.
type database struct {
	operate.Operator
	of *pipeline.Pipeline
	sh *cli.Shell
}

// Status implements desk.
func (d *database) Status(ctx context.Context) (*report.Status, error) {
	return pipeline.ReadStatus(ctx, d.sh, d.of)
}

// Sinks implements desk.
func (d *database) Sinks(context.Context) ([]string, error) { return d.of.Config.Router.Sinks(), nil }

// Configuration implements desk.
func (d *database) Configuration(context.Context) (string, error) { return d.of.Effective, nil }

// Names of the variables that stand for --server and --token-file.
const (
	serverEnv = "TAILBOX_SERVER"
	tokenEnv  = "TAILBOX_TOKEN_FILE"
)

// Where is the part of a command line that says which pipeline is meant: a configuration file, or the address of a relay.
type Where struct{ file, server, tokenFile string }

// Flags adds -c, --debezium, --server and --token-file.
func (w *Where) Flags(fs *flag.FlagSet) {
	pipeline.ConfigFlag(fs, &w.file)
	w.serverFlags(fs)
}

func (w *Where) serverFlags(fs *flag.FlagSet) {
	fs.StringVar(&w.server, "server", "", "ask the HTTP API of the relay at `URL` instead of the database: no configuration is read (default $"+serverEnv+")")
	fs.StringVar(&w.tokenFile, "token-file", "", "`FILE` with the token for --server (default $"+tokenEnv+")")
}

// A Target is the pipeline that a command works on.
type Target struct {
	desk
	// tables are the outbox tables of the configuration; nil if a relay is asked, which does not list them.
	tables []outbox.Table
}

// ofConfig is the target that a configuration describes.
func ofConfig(p *pipeline.Pipeline, db operate.Database, sh *cli.Shell) *Target {
	tables := slices.Clone(p.Config.Source.Tables)
	if prefix := p.Config.Source.Messages; prefix != "" {
		tables = append(tables, outbox.LogMessageTable(prefix))
	}
	return &Target{&database{db.Operator(), p, sh}, tables}
}

// Open finds the pipeline. The command line counts before the environment.
func (w *Where) Open(ctx context.Context, sh *cli.Shell) (*Target, error) {
	relay, err := w.dial(sh)
	if err != nil {
		return nil, err
	}
	if relay != nil {
		return &Target{desk: relay}, nil
	}
	p, err := pipeline.Load(ctx, sh, w.file)
	if err != nil {
		return nil, err
	}
	return ofConfig(p, p.Database(sh.Log(), nil), sh), nil
}

// dial returns a client of the relay that is named; nil if none is.
func (w *Where) dial(sh *cli.Shell) (*client.Client, error) {
	server, tokenFile := w.server, w.tokenFile
	if w.file != "" && (server != "" || tokenFile != "") {
		return nil, cli.WrongUsage("-c and --server both say which pipeline is meant: leave out one of the two")
	}
	if server == "" && w.file == "" {
		server, _ = sh.Env(serverEnv)
	}
	if server == "" {
		if tokenFile != "" {
			return nil, cli.WrongUsage("--token-file is for --server: name the relay's address, too")
		}
		return nil, nil
	}
	if tokenFile == "" {
		tokenFile, _ = sh.Env(tokenEnv)
	}
	relay, err := client.New(server, tokenFile)
	if err != nil {
		return nil, cli.WrongUsage("%w", err)
	}
	if relay.Exposed() {
		fmt.Fprintf(sh.Err, "tailbox: the token goes to %s without TLS, so that others can read it on its way: use https\n", relay.Address())
	}
	return relay, nil
}
