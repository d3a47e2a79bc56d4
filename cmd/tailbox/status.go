package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/store"
)

func newStatus() *command {
	var file string
	var output output
	return &command{
		name: "status", about: "shows positions, lag, sinks, and what is parked, held and dead",
		long: "It reads the database. The states of sinks (open, failing, paused or throttled) are asked from the relay that\n" +
			"serves admin.listen. If none answers, only paused is known.",
		example: "tailbox status -c tailbox.yaml\ntailbox status -o json",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, _ []string) error {
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			r, err := readReport(ctx, sh, p)
			if err != nil {
				return err
			}
			if output.json {
				return printJSON(sh.out, r.all)
			}
			return printReport(sh.out, r)
		},
	}
}

// A report is what a database's status tells.
type report struct {
	// all is what -o json prints; sinks are a part of it.
	all                                 any
	sinks                               *[]store.SinkReport
	pipeline, relay, source, checkpoint string
	// log are lines about the log that is read.
	log          [][]string
	openRequests int
	held         []checkpoint.Lane
	feedback     []store.FeedbackFailure
	// retained and lag are bytes of log; -1 = unknown. Unclean counts starts in a row that settled nothing.
	retained, lag int64
	unclean       int
	// resume is the checkpoint's position. running: a relay holds the lock.
	resume  source.Resume
	running bool
	// waiting is why the server sends nothing to a relay that reads, waitSeconds since when, as far as it tells; "" if it sends.
	waiting     string
	waitSeconds float64
}

// readReport reads the status, with every sink of the configuration in it.
func readReport(ctx context.Context, sh *shell, p *parts) (*report, error) {
	r, err := p.database(sh.log(), nil).status(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range p.config.Router.Sinks() {
		if !slices.ContainsFunc(*r.sinks, func(s store.SinkReport) bool { return s.Sink == name }) {
			*r.sinks = append(*r.sinks, store.SinkReport{Sink: name})
		}
	}
	states := sinkStates(ctx, p.config.Admin.Listen, p.config.Pipeline)
	for i := range *r.sinks {
		(*r.sinks)[i].State = stateOf(&(*r.sinks)[i], states)
	}
	return r, nil
}

func printReport(w io.Writer, r *report) error {
	rows := [][]string{{"pipeline", r.pipeline}, {"relay", r.relay}, {"source", r.source}}
	rows = append(rows, r.log...)
	rows = append(rows, []string{"checkpoint", r.checkpoint})
	if r.openRequests > 0 {
		rows = append(rows, []string{"requests", count(r.openRequests, "is", "are") + " not carried out yet"})
	}
	for _, lane := range r.held {
		at := "at sink " + lane.Sink
		if lane.Sink == "" {
			at = "at every sink"
		}
		rows = append(rows, []string{"held", cell(lane.Group, 0) + " " + at})
	}
	for _, f := range r.feedback {
		rows = append(rows, []string{"feedback", fmt.Sprintf("%s of table %s failed %s, last %s ago: %s", f.Outcome, f.Table, count(f.Failed, "time", "times"),
			seconds(f.AgeSeconds), cell(f.Error, 0))})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	heading := [][]string{{"SINK", "STATE", "RETRYING", "WAITING", "DEAD", "GROUPS WAITING", "FOR AN OPERATOR", "OVERDUE", "OLDEST"}}
	for _, s := range *r.sinks {
		heading = append(heading, []string{sinkName(s.Sink), s.State, fmt.Sprint(s.Retrying), fmt.Sprint(s.Waiting), fmt.Sprint(s.Dead),
			fmt.Sprint(s.Lanes), fmt.Sprint(s.HeldLanes), seconds(s.DueSeconds), seconds(s.UndeliveredSeconds)})
	}
	return table(w, heading)
}

// checkpointLine tells of a saved checkpoint.
func checkpointLine(resume string, log uint32, age float64, sweeping bool, unclean int) string {
	text := fmt.Sprintf("%s, log %d, saved %s ago", resume, log, seconds(age))
	if sweeping {
		text += "; a sweep of pending rows has not ended"
	}
	if unclean > 1 {
		text += fmt.Sprintf("; %s ended before anything was settled", count(unclean-1, "start", "starts in a row"))
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
