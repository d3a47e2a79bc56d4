package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
)

// A Relay delivers the messages of one source to its sinks while it holds the lock. New makes one, Run runs it.
type Relay struct {
	cfg     Config
	standby string // what standBy last said of who holds the lock; "" if that is over
	// survived: this process has had a term before, with so many unclean starts on record when the first of them began.
	survived bool
	unclean  int
	last     ending // of the last term
	// past is what earlier terms learned. If it says that the log cannot be read from the checkpoint, the next term establishes a new position.
	past termMemory
	// reloads are handed to whoever can take one. taken waits for the next time that the database's state is loaded. over is closed when Run returns.
	reloads chan *reload
	taken   *reload
	over    chan struct{}
}

// New checks the configuration. It opens nothing.
func New(cfg Config) (*Relay, error) {
	cfg = cfg.withDefaults()
	var errs []error
	if cfg.Source == nil || cfg.Open == nil || cfg.Router == nil {
		errs = append(errs, errors.New("relay: Source, Open and Router are needed"))
	}
	errs = append(errs, CountSinks(len(cfg.Sinks)))
	return &Relay{cfg: cfg, reloads: make(chan *reload), over: make(chan struct{})}, errors.Join(errs...)
}

// CountSinks returns what is wrong with a number of sinks.
func CountSinks(n int) error {
	switch {
	case n == 0:
		return errors.New("relay: no sinks: name at least one")
	case n > maxSinks:
		return fmt.Errorf("relay: %d sinks are more than the %d that one pipeline can have", n, maxSinks)
	}
	return nil
}

const (
	// standbyEvery is how often a standby asks for the lock.
	standbyEvery = time.Second
	closeTimeout = 2 * source.CloseTime
)

// Run relays until ctx ends; then it stops softly: what is in flight ends, is settled and confirmed, within
// ShutdownTimeout. It returns nil then. Whatever fails on the way (a lost connection, a lost lock) ends a term: all
// memory is forgotten, and a new term begins where the database says (R9). Only what an operator has to mend, an error
// that matches source.ErrStop or source.ErrUnjudged, ends Run by itself; a table that does not exist does so after some seconds.
func (r *Relay) Run(ctx context.Context) error {
	defer close(r.over)
	var pace pacing
	var missing missingTable
	for {
		began := time.Now()
		r.last = ending{}
		err := r.term(ctx)
		r.last.took = time.Since(began)
		if ctx.Err() != nil {
			r.state("stopped", "")
			return nil
		}
		again := missing.retryTerm(err, r.last.loaded, r.last.took, time.Now())
		if !again && (errors.Is(err, source.ErrStop) || errors.Is(err, source.ErrUnjudged)) {
			r.state("stopped", err.Error())
			return err
		}
		var wait time.Duration
		switch {
		case again:
			wait = awayEvery
			r.cfg.Logger.Warn("a table does not exist: looking again, in case it is being made anew", "error", err, "at_most", source.AwayFor.String())
			r.state("disconnected", err.Error())
		case errors.Is(err, errRestart):
			continue
		case errors.Is(err, checkpoint.ErrLocked):
			wait = standbyEvery + time.Duration(r.cfg.Rand.Int64N(int64(standbyEvery/4)))
			r.standBy(err)
			r.adopt(ctx, nil)
		default:
			r.standby = ""
			wait = pace.after(r.last)
			r.cfg.Logger.Error("relay interrupted: starting again", "error", err, "in", wait.String())
			r.state("disconnected", fmt.Sprint(err))
		}
		r.pause(ctx, wait)
	}
}

// pause waits between two terms. A reload ends it: a standby goes on with the new configuration, and the next term does otherwise.
func (r *Relay) pause(ctx context.Context, wait time.Duration) {
	reloads := r.reloads
	if r.taken != nil {
		reloads = nil
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	case r.taken = <-reloads:
		if r.standby != "" {
			r.adopt(ctx, nil)
		}
	}
}

// standBy logs who holds the lock, once for each holder. If the holder is no relay of this pipeline, nothing is delivered, so this relay does not
// report itself as a healthy standby.
func (r *Relay) standBy(err error) {
	if r.standby == err.Error() {
		return
	}
	r.standby = err.Error()
	var locked *checkpoint.LockedError
	switch errors.As(err, &locked); {
	case locked == nil:
		r.cfg.Logger.Info("standing by: another relay holds the lock")
	case locked.Foreign:
		r.cfg.Logger.Error("standing by: the lock is held by a session that is no tailbox of this pipeline: find out what it is, and end it", "holder", locked.Holder,
			"end", locked.Fix)
		r.state("locked out", err.Error())
		return
	default:
		r.cfg.Logger.Info("standing by: another relay holds the lock", "holder", locked.Holder)
	}
	r.state("standby", err.Error())
}

func (r *Relay) state(name, why string) {
	if f := r.cfg.Events.State; f != nil {
		f(name, why)
	}
}

// term is one time as the holder of the lock.
func (r *Relay) term(ctx context.Context) error {
	store, err := r.cfg.Open(ctx)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := store.Close(closing); err != nil {
			r.cfg.Logger.Debug("close the store", "error", err)
		}
	}()
	r.standby = ""
	for {
		if err := r.lead(ctx, store); !errors.Is(err, errReload) {
			return err
		}
	}
}

// lead relays from what the database says, in a session that holds the lock. With errReload the caller leads on in the same session.
func (r *Relay) lead(ctx context.Context, store checkpoint.Store) error {
	loaded, err := store.Load(ctx)
	if err != nil {
		return fmt.Errorf("load the relay's state: %w", err)
	}
	r.last.loaded = true
	r.clearSurvived(loaded)
	r.adopt(ctx, loaded)
	if err := r.parkedElsewhere(loaded); err != nil {
		return err
	}
	clock, err := r.readClock(ctx, store)
	if err != nil {
		return err
	}
	at, err := establish(ctx, r.cfg.Source, store, loaded, r.past, r.cfg.Logger)
	if err != nil {
		return err
	}
	r.past = termMemory{saved: at.Checkpoint}
	if at.Gap != "" && r.cfg.Events.Gap != nil {
		r.cfg.Events.Gap(at.Gap)
	}
	e := newEngine(r.cfg, store, loaded, &at.Checkpoint, at.Snapshot)
	e.session.clock, e.reloads = clock, r.reloads
	err = e.run(ctx)
	r.last.sent, r.last.durable = e.dispatcher.sent, e.settler.durable
	r.past.saved = e.settler.saved
	if errors.Is(err, source.ErrGap) {
		r.past.tried = readFailure{at.Checkpoint.Log, err.Error()}
	}
	if r.taken = e.reload; r.taken != nil && err == nil && ctx.Err() == nil {
		return errReload
	}
	return err
}

// clearSurvived forgets the unclean starts and the message on record that this process has survived: a term that ended by an error, such as a lost
// connection, was no crash (R9).
func (r *Relay) clearSurvived(loaded *checkpoint.Loaded) {
	if !r.survived {
		r.survived, r.unclean = true, loaded.UncleanStarts
		return
	}
	loaded.UncleanStarts = min(loaded.UncleanStarts, r.unclean)
	loaded.Started = checkpoint.CrashCandidate{}
}

// parkedElsewhere refuses to start when deliveries are parked for a sink that the configuration does not have (R9).
func (r *Relay) parkedElsewhere(loaded *checkpoint.Loaded) error {
	what, fix := ParkedElsewhere(loaded.ParkedSinks, func(sink string) bool { _, ok := r.cfg.Sinks[sink]; return ok })
	if what == "" {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", what, fix, source.ErrStop)
}

// ParkedElsewhere returns the problem and its fix if deliveries are parked for a sink that is not configured: no relay starts then. It returns "" if
// there are none. It ignores deliveries that could not be routed.
func ParkedElsewhere(parked []string, configured func(sink string) bool) (what, fix string) {
	var missing []string
	for _, name := range parked {
		if name != "" && !configured(name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return "", ""
	}
	slices.Sort(missing)
	return fmt.Sprintf("deliveries are parked for sinks %q that are not in the configuration", missing),
		"put them back, or give the deliveries up: tailbox dead drop --sink NAME --state retrying,waiting,dead --all --why TEXT"
}

// ParkedOutside returns the problem and its fix if deliveries are parked from tables that are not configured any more (renamed, or taken out). None
// of them could be routed: each would become a dead letter. It returns "" if there are none.
func ParkedOutside(tables []string, configured func(table string) bool) (what, fix string) {
	var missing, fixes []string
	byPrefix := outbox.LogMessageTable("").String()
	ofTable := false
	for _, table := range slices.Sorted(slices.Values(tables)) {
		if configured(table) {
			continue
		}
		missing = append(missing, table)
		if prefix, emitted := strings.CutPrefix(table, byPrefix); emitted {
			fixes = append(fixes, "put source.messages: "+prefix+" back")
		} else if !ofTable {
			ofTable = true
			fixes = append(fixes, "put the tables back into source.tables, one that was renamed under the name that it had, until they are delivered")
		}
	}
	if len(missing) == 0 {
		return "", ""
	}
	return "deliveries are parked from tables that are not in the configuration: " + strings.Join(missing, ", "), strings.Join(fixes, ", and ") +
		", or give the deliveries up: tailbox dead drop --table NAME --state retrying,waiting,dead --all-sinks --why TEXT"
}

// requireTable stops the relay when what is parked comes from a table that the configuration does not have. That is found when it is brought back,
// not at the start: no index leads to it, and after an outage there are millions.
func (e *engine) requireTable(table string) bool {
	if e.cfg.Router.Knows(table) {
		return true
	}
	what, fix := ParkedOutside([]string{table}, e.cfg.Router.Knows)
	e.failed = fmt.Errorf("%s: %s: %w", what, fix, source.ErrStop)
	return false
}
