package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tailbox/tailbox/source/postgres"
)

func newStatus() *command {
	var file string
	var output output
	return &command{
		name: "status", about: "shows positions, lag, sinks, and what is parked, held and dead",
		long:    "It reads the database alone, so it needs no running relay.",
		example: "tailbox status -c tailbox.yaml\ntailbox status -o json",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, _ []string) error {
			p, err := load(sh, file)
			if err != nil {
				return err
			}
			r, err := report(ctx, sh, p)
			if err != nil {
				return err
			}
			if output.json {
				return printJSON(sh.out, r)
			}
			return printReport(sh.out, r)
		},
	}
}

// report reads the status, with every sink of the configuration in it.
func report(ctx context.Context, sh *shell, p *parts) (*postgres.Report, error) {
	r, err := postgres.Status(ctx, p.postgres(sh.log(), nil))
	if err != nil {
		return nil, err
	}
	for _, name := range p.config.Router.Sinks() {
		if !slices.ContainsFunc(r.Sinks, func(s postgres.SinkReport) bool { return s.Sink == name }) {
			r.Sinks = append(r.Sinks, postgres.SinkReport{Sink: name})
		}
	}
	return r, nil
}

func printReport(w io.Writer, r *postgres.Report) error {
	rows := [][]string{
		{"pipeline", r.Pipeline},
		{"relay", holderText(r.Holder)},
		{"source", fmt.Sprintf("postgres %s, system id/timeline %s, log ends at %s", r.Version, r.SourceID, r.End)},
	}
	if r.Slot == nil {
		rows = append(rows, []string{"slot", "there is none: tailbox init makes it"})
	} else {
		rows = append(rows, []string{"slot", slotText(r.Slot)},
			[]string{"lag", fmt.Sprintf("%s, %s; the server keeps %s of log", bytesText(r.Slot.LagBytes), seconds(r.Slot.LagSeconds),
				bytesText(r.Slot.RetainedBytes))})
	}
	rows = append(rows, []string{"checkpoint", checkpointText(r.Checkpoint)})
	if r.OpenRequests > 0 {
		rows = append(rows, []string{"requests", count(r.OpenRequests, "is", "are") + " not carried out yet"})
	}
	for _, lane := range r.Held {
		at := "at sink " + lane.Sink
		if lane.Sink == "" {
			at = "at every sink"
		}
		rows = append(rows, []string{"held", cell(lane.Group, 0) + " " + at})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading := [][]string{{"SINK", "PAUSED", "RETRYING", "WAITING", "DEAD", "GROUPS WAITING", "FOR AN OPERATOR", "OVERDUE"}}
	for _, s := range r.Sinks {
		heading = append(heading, []string{sinkName(s.Sink), yes(s.Paused), fmt.Sprint(s.Retrying), fmt.Sprint(s.Waiting), fmt.Sprint(s.Dead),
			fmt.Sprint(s.Lanes), fmt.Sprint(s.HeldLanes), seconds(s.DueSeconds)})
	}
	return table(w, heading)
}

func holderText(h *postgres.HolderReport) string {
	if h == nil {
		return "not running: nobody holds the pipeline's lock"
	}
	from := "this machine"
	if h.Client != "" {
		from = h.Client
	}
	return fmt.Sprintf("running from %s since %s (pid %d of the server)", from, h.Since.Format(time.RFC3339), h.PID)
}

// slotText tells the columns of pg_replication_slots that matter most.
func slotText(s *postgres.SlotReport) string {
	text := s.Name
	for _, column := range []string{"active", "wal_status", "confirmed_flush_lsn", "restart_lsn", "invalidation_reason", "conflicting"} {
		if v, ok := s.Row[column]; ok && v != nil && v != "" && (column != "conflicting" || v == true) {
			text += fmt.Sprintf(" %s=%v", column, v)
		}
	}
	return text
}

func checkpointText(c *postgres.CheckpointReport) string {
	if c == nil {
		return "there is none: tailbox init makes it"
	}
	text := fmt.Sprintf("%s, log %d, saved %s ago", c.Resume, c.Log, seconds(c.AgeSeconds))
	if c.SweepPending {
		text += "; a sweep of pending rows has not ended"
	}
	if c.UncleanStarts > 1 {
		text += fmt.Sprintf("; %s ended before anything was settled", count(c.UncleanStarts-1, "start", "starts in a row"))
	}
	return text
}

// seconds writes a duration for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	case n < 10<<30:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d GiB", n>>30)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
