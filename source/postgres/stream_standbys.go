package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source/postgres/pgrepl"
)

// A StandbySlot is a physical slot that synchronized_standby_slots names: the server sends nothing to the relay that the standby behind it does not
// have, if the relay's own slot is synchronised.
type StandbySlot struct {
	Name string `json:"name"`
	// Missing: there is no such slot. Active: a standby reads it.
	Missing bool `json:"missing,omitempty"`
	Active  bool `json:"active"`
	// Invalid is why the slot can never be read again; "" if it can.
	Invalid string `json:"invalid,omitempty"`
	// AwaySeconds is how long no standby has read it, as far as the server tells.
	AwaySeconds float64    `json:"away_seconds,omitempty"`
	at          pgrepl.LSN // how far the standby has the log
}

// away says what is wrong with the slot; "" if nothing is.
func (s *StandbySlot) away() string {
	switch {
	case s.Missing:
		return "does not exist"
	case s.Invalid != "":
		return "is invalidated (" + s.Invalid + ")"
	case !s.Active:
		return "has no standby that reads it"
	}
	return ""
}

// standbysSQL lists those slots, for a slot of ours with failover. As JSON and with missing_ok, because versions before 17 have none of it.
const standbysSQL = `SELECT n.name, (s.slot_name IS NULL)::int, coalesce(s.active, false)::int, coalesce(s.restart_lsn, '0/0'), ` +
	`coalesce(pg_catalog.to_jsonb(s) ->> 'invalidation_reason', ''), ` +
	`coalesce(extract(epoch FROM pg_catalog.now() - (pg_catalog.to_jsonb(s) ->> 'inactive_since')::timestamptz), 0)::float8 ` +
	`FROM pg_catalog.regexp_split_to_table(pg_catalog.replace(pg_catalog.current_setting('synchronized_standby_slots', true), '"', ''), '\s*,\s*') AS n (name) ` +
	`LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = n.name AND s.slot_type = 'physical' WHERE n.name <> '' ` +
	`AND EXISTS (SELECT FROM pg_catalog.pg_replication_slots o WHERE o.slot_name = %s AND (pg_catalog.to_jsonb(o) ->> 'failover')::boolean) ORDER BY 1`

// standbys lists the slots of standbys that the server waits for before it sends anything to the configured slot.
func (c *Config) standbys(ctx context.Context, conn *pgconn.PgConn) ([]StandbySlot, error) {
	rows, err := queryText(ctx, conn, fmt.Sprintf(standbysSQL, quoteLiteral(c.Slot)))
	if err != nil {
		return nil, fmt.Errorf("look at synchronized_standby_slots: %w", err)
	}
	var list []StandbySlot
	for _, r := range rows {
		s := StandbySlot{Name: r[0], Missing: r[1] == "1", Active: r[2] == "1", Invalid: r[4]}
		if s.at, err = pgrepl.ParseLSN(r[3]); err == nil {
			_, err = fmt.Sscan(r[5], &s.AwaySeconds)
		}
		if err != nil {
			return nil, fmt.Errorf("look at synchronized_standby_slots: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

// awayWarning is what is wrong with the slots that hold delivery up; "" if none does.
func awayWarning(list []StandbySlot) string {
	var parts []string
	for i := range list {
		if why := list[i].away(); why != "" {
			parts = append(parts, list[i].Name+" "+why)
		}
	}
	return strings.Join(parts, ", ")
}

// awayCure is the fix for that.
const awayCure = "start the standby, or take its slot out of synchronized_standby_slots and reload the configuration"

// A standbyGate holds confirmations back until the standbys have the checkpoint that they stand for. The server synchronises our slot as soon as a standby
// has the log up to the slot's position. The checkpoint was committed behind that: a standby that is promoted in between would have a slot ahead of
// its checkpoint.
type standbyGate struct {
	// passed: confirmations up to it may be sent to the server.
	passed atomic.Uint64

	mu          sync.Mutex
	held, until pgrepl.LSN // held may pass once the standbys have the log up to until
}

// look takes note of the server: confirmed was durable before it was asked, end is the end of its log then.
func (g *standbyGate) look(confirmed, end pgrepl.LSN, list []StandbySlot) (opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.passed.Load()
	if len(list) == 0 {
		g.passed.Store(math.MaxUint64)
		return before != math.MaxUint64
	}
	have := pgrepl.LSN(math.MaxUint64)
	for i := range list {
		have = min(have, list[i].at)
	}
	if before == math.MaxUint64 { // the setting is new
		before = uint64(confirmed)
	}
	for range 2 {
		if g.held != 0 && have >= g.until {
			before, g.held = max(before, uint64(g.held)), 0
		}
		if g.held == 0 && uint64(confirmed) > before {
			g.held, g.until = confirmed, end
		}
	}
	opened = before > g.passed.Load()
	g.passed.Store(before)
	return opened
}

const (
	// standbyEvery is how often the standbys are looked at, and lastEvery and lastLook how often and how long at the end of a stream.
	standbyEvery = time.Second
	lastEvery    = 50 * time.Millisecond
	lastLook     = time.Second
	// awayFor is how long standbys may be away before somebody is told: one that is started anew is away for a moment.
	awayFor = 5 * time.Second
)

// lastLooks waits a moment for what was confirmed last to pass: the slot stays behind the checkpoint else, which costs the server log.
func (w *watch) lastLooks(ctx context.Context, status *statusWriter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	tick := time.NewTicker(lastEvery)
	defer tick.Stop()
	for pgrepl.LSN(w.gate.passed.Load()) < status.wanted() {
		if err := w.look(ctx); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell logs standbys that hold delivery up, once, and when they are back.
func (w *watch) tell(list []StandbySlot, now time.Time) {
	why := awayWarning(list)
	switch {
	case why == "" && w.awayTold:
		w.cfg.logger().Info("the standbys that Postgres waits for are back", "away", now.Sub(w.awaySince).Round(time.Second).String())
	case why != "" && !w.awaySince.IsZero() && !w.awayTold && now.Sub(w.awaySince) >= awayFor:
		w.cfg.logger().Warn("Postgres sends no message: it waits for standbys that synchronized_standby_slots names", "slots", why, "fix", awayCure)
		w.awayTold = true
	}
	switch {
	case why == "":
		w.awaySince, w.awayTold = time.Time{}, false
	case w.awaySince.IsZero():
		w.awaySince = now
	}
}
