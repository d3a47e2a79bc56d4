package pipeline

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/poll"
	"github.com/tailbox/tailbox/source/store"
)

// statesTimeout bounds asking a relay on this machine for the states of its sinks.
const statesTimeout = time.Second

// A Report is what a database's status tells.
type Report struct {
	// All is what -o json prints; sinks are a part of it.
	All                                 any
	Sinks                               *[]store.SinkReport
	Pipeline, Relay, Source, Checkpoint string
	// Log are lines about the log that is read.
	Log          [][]string
	OpenRequests int
	Held         []checkpoint.Lane
	Feedback     []store.FeedbackFailure
	// Retained and lag are bytes of log; -1 = unknown. Unclean counts starts in a row that settled nothing.
	Retained, Lag int64
	Unclean       int
	// Resume is the checkpoint's position. running: a relay holds the lock.
	Resume  source.Resume
	Running bool
	// Waiting is why the server sends nothing to a relay that reads, waitSeconds since when, as far as it tells; "" if it sends.
	Waiting     string
	WaitSeconds float64
}

// reportOf is what any database reports; all is the whole of it.
func reportOf(all any, r *store.Report) *Report {
	out := &Report{All: all, Sinks: &r.Sinks, Pipeline: r.Pipeline, Checkpoint: "there is none: tailbox init makes it",
		OpenRequests: r.OpenRequests, Held: r.Held, Feedback: r.Feedback, Retained: -1, Lag: -1}
	if c := r.Checkpoint; c != nil {
		out.Unclean, out.Resume = c.UncleanStarts, source.Resume(c.Resume)
		out.Checkpoint = checkpointLine(c.Resume, c.Log, c.AgeSeconds, c.SweepPending, c.UncleanStarts)
	}
	return out
}

// ReadReport reads the status, with every sink of the configuration in it.
func ReadReport(ctx context.Context, sh *cli.Shell, p *Pipeline) (*Report, error) {
	r, err := p.Database(sh.Log(), nil).Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Config.Router.Sinks() {
		if !slices.ContainsFunc(*r.Sinks, func(s store.SinkReport) bool { return s.Sink == name }) {
			*r.Sinks = append(*r.Sinks, store.SinkReport{Sink: name})
		}
	}
	states := sinkStates(ctx, p.Config.Admin.Listen, p.Config.Pipeline)
	for i := range *r.Sinks {
		(*r.Sinks)[i].State = stateOf(&(*r.Sinks)[i], states)
	}
	return r, nil
}

// checkpointLine tells of a saved checkpoint.
func checkpointLine(resume string, log uint32, age float64, sweeping bool, unclean int) string {
	text := fmt.Sprintf("%s, log %d, saved %s ago", resume, log, cli.Seconds(age))
	if sweeping {
		text += "; a sweep of pending rows has not ended"
	}
	if unclean > 1 {
		text += fmt.Sprintf("; %s ended before anything was settled", cli.Count(unclean-1, "start", "starts in a row"))
	}
	return text
}

// pollLines tell how far polling is; resume is the checkpoint's.
func pollLines(p *store.PollReport, resume string) [][]string {
	if p == nil {
		return [][]string{{"polling", "its sequence cannot be read: tailbox check says why"}}
	}
	text := fmt.Sprintf("%s is at %d", p.Sequence, p.Last)
	if at, _, err := poll.ParseResume(source.Resume(resume)); err == nil && at < p.Last {
		text += fmt.Sprintf(", %d numbers after the checkpoint", p.Last-at)
	}
	lines := [][]string{{"polling", text}}
	if len(p.Open) > 0 {
		const most = 5
		more := ""
		if n := len(p.Open) - most; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		lines = append(lines, []string{"open", "what comes after their numbers waits for " + strings.Join(p.Open[:min(most, len(p.Open))], ", ") + more})
	}
	return lines
}

func stateOf(s *store.SinkReport, states map[string]string) string {
	if s.Paused {
		return "paused"
	}
	if state, ok := states[s.Sink]; ok {
		return state
	}
	return "-"
}

var (
	sinkStateLine = regexp.MustCompile(`^tailbox_sink_state\{sink="([^"]+)",state="([^"]+)"\} 1$`)
	connectedLine = regexp.MustCompile(`^tailbox_source_connected\{source="([^"]+)"\} 1$`)
)

// sinkStates asks the metrics of a relay; it knows nothing where none of this pipeline answers that reads the log.
func sinkStates(ctx context.Context, address, pipeline string) map[string]string {
	if address == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statesTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	states, reading := map[string]string{}, false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if m := sinkStateLine.FindStringSubmatch(lines.Text()); m != nil {
			states[m[1]] = m[2]
		}
		if m := connectedLine.FindStringSubmatch(lines.Text()); m != nil {
			reading = reading || m[1] == pipeline
		}
	}
	if !reading {
		return nil
	}
	return states
}

// SinkName shows the empty name, which stands for messages that could not be routed.
func SinkName(name string) string {
	if name == "" {
		return "''"
	}
	return name
}
