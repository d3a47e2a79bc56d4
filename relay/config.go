package relay

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/source"
)

// Config is what a Relay is made of. Everything but Source, Open, Sinks and Router has a default.
type Config struct {
	// Pipeline names the relay in the header tailbox-source.
	Pipeline string
	// Source tails the log.
	Source source.Source
	// Open opens a session with the store and takes the lock. It fails with checkpoint.ErrLocked while another relay holds
	// it; Run tries again, as a standby.
	Open func(context.Context) (checkpoint.Store, error)
	// Sinks by name. The caller closes them after Run returned, or when Relay.Reload has exchanged them.
	Sinks  map[string]sink.Sink
	Router *router.Router

	// Kept reports whether the rows of a table stay as they are when they are delivered (keep): nothing is to be done about
	// them. It is called by several goroutines. Nil means that no table is kept.
	Kept func(table string) bool
	// Receipts reports whether what sinks answer is to be kept with the rows of a table. It is called by several goroutines.
	// Nil means nowhere.
	Receipts func(table string) bool
	// Hide takes the secrets of the configuration out of a text, because a destination may repeat them in its answers. It is called by several
	// goroutines. Nil means that there are none.
	Hide func(text string) string
	// Memory bounds everything queued, in bytes. Default 64 MiB.
	Memory int64
	// Reconcile is how often the tables are compared with the log (R11); 0 means never.
	Reconcile time.Duration
	// Cleanup is how often the relay looks for delivered rows whose retention is over; 0 means never. It needs a store that is a checkpoint.Cleaner.
	Cleanup time.Duration
	// Ours reports whether a message is this pipeline's: others are passed over. It is called by several goroutines. Nil means that
	// all are.
	Ours func(*outbox.Message) bool
	// ShutdownTimeout bounds the soft stop. Default 30 s.
	ShutdownTimeout time.Duration
	// Tick is how often due lanes and requests are looked for. Default 1 s.
	Tick time.Duration

	Events Events
	Logger *slog.Logger
	// Rand draws jitter; a test sets it to make runs repeatable. Default: random.
	Rand *rand.Rand
}

const (
	defaultMemory          = 64 << 20
	defaultShutdownTimeout = 30 * time.Second
	defaultTick            = time.Second
)

func (c Config) withDefaults() Config {
	if c.Pipeline == "" {
		c.Pipeline = "default"
	}
	if c.Memory <= 0 {
		c.Memory = defaultMemory
	}
	if c.ShutdownTimeout <= 0 {
		c.ShutdownTimeout = defaultShutdownTimeout
	}
	if c.Tick <= 0 {
		c.Tick = defaultTick
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	return c
}
