package upstream

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tailbox/tailbox/source/postgres/pgrepl"
	"github.com/tailbox/tailbox/source/postgres/session"
	"github.com/tailbox/tailbox/source/postgres/sqltext"
)

// A StandbySlot is a physical slot that synchronized_standby_slots names: if the relay's own slot is synchronised, the server sends the relay only
// log that the standby behind it has.
type StandbySlot struct {
	Name string `json:"name"`
	// Missing: there is no such slot. Active: a standby reads it.
	Missing bool `json:"missing,omitempty"`
	Active  bool `json:"active"`
	// Invalid is why the slot can never be read again; "" if it can.
	Invalid string `json:"invalid,omitempty"`
	// AwaySeconds is how long no standby has read it, as far as the server tells.
	AwaySeconds float64    `json:"away_seconds,omitempty"`
	At          pgrepl.LSN // how far the standby has the log
}

// Away says what is wrong with the slot; "" if nothing is.
func (s *StandbySlot) Away() string {
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

// Standbys lists the slots of standbys that the server waits for before it sends anything to the configured slot.
func Standbys(ctx context.Context, c *session.Config, conn *pgconn.PgConn) ([]StandbySlot, error) {
	rows, err := session.Query(ctx, conn, fmt.Sprintf(standbysSQL, sqltext.Literal(c.Slot)))
	if err != nil {
		return nil, fmt.Errorf("look at synchronized_standby_slots: %w", err)
	}
	var list []StandbySlot
	for _, r := range rows {
		s := StandbySlot{Name: r[0], Missing: r[1] == "1", Active: r[2] == "1", Invalid: r[4]}
		if s.At, err = pgrepl.ParseLSN(r[3]); err == nil {
			_, err = fmt.Sscan(r[5], &s.AwaySeconds)
		}
		if err != nil {
			return nil, fmt.Errorf("look at synchronized_standby_slots: %w", err)
		}
		list = append(list, s)
	}
	return list, nil
}

// AwayWarning is what is wrong with the slots that hold delivery up; "" if none does.
func AwayWarning(list []StandbySlot) string {
	var parts []string
	for i := range list {
		if why := list[i].Away(); why != "" {
			parts = append(parts, list[i].Name+" "+why)
		}
	}
	return strings.Join(parts, ", ")
}

// AwayFix is the fix for an AwayWarning.
const AwayFix = "start the standby, or take its slot out of synchronized_standby_slots and reload the configuration"
