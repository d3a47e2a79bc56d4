package pipeline

import (
	"bufio"
	"context"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/source/store/report"
)

// statesTimeout bounds asking a relay on this machine for the states of its sinks.
const statesTimeout = time.Second

// ReadStatus reads the status, with every sink of the configuration in it.
func ReadStatus(ctx context.Context, sh *cli.Shell, p *Pipeline) (*report.Status, error) {
	r, err := p.Database(sh.Log(), nil).Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range p.Config.Router.Sinks() {
		if !slices.ContainsFunc(r.Sinks, func(s report.SinkCount) bool { return s.Sink == name }) {
			r.Sinks = append(r.Sinks, report.SinkCount{Sink: name})
		}
	}
	states := sinkStates(ctx, p.Config.Admin.Listen, p.Config.Pipeline)
	for i := range r.Sinks {
		r.Sinks[i].State = stateOf(&r.Sinks[i], states)
	}
	return r, nil
}

func stateOf(s *report.SinkCount, states map[string]string) string {
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
