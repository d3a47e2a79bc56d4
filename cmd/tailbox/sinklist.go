package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/tailbox/tailbox/source/store"
)

// statesTimeout bounds asking a relay on this machine for the states of its sinks.
const statesTimeout = time.Second

func newSinkList() *command {
	var file string
	var output output
	return &command{
		name: "list", args: "[NAME…]", about: "lists sinks, what is parked for them, and their breakers",
		long: "The state is asked from the relay that serves admin.listen: open, failing, paused or throttled. Where it\n" +
			"cannot be asked, only paused is known.",
		example: "tailbox sink list",
		flags: func(fs *flag.FlagSet) {
			configFlag(fs, &file)
			output.flag(fs)
		},
		run: func(ctx context.Context, sh *shell, names []string) error {
			p, err := load(ctx, sh, file)
			if err != nil {
				return err
			}
			if err := p.knowSinks("sink list", names); err != nil {
				return err
			}
			r, err := readReport(ctx, sh, p)
			if err != nil {
				return err
			}
			kinds := map[string]string{}
			for _, s := range p.config.Sinks {
				kinds[s.Name] = s.Kind
			}
			var views []sinkView
			for _, s := range *r.sinks {
				if len(names) > 0 && !slices.Contains(names, s.Sink) {
					continue
				}
				views = append(views, sinkView{SinkReport: s, Kind: kinds[s.Sink]})
			}
			if output.json {
				return printJSON(sh.out, views)
			}
			rows := [][]string{{"SINK", "KIND", "STATE", "RETRYING", "WAITING", "DEAD", "OVERDUE"}}
			for _, v := range views {
				rows = append(rows, []string{sinkName(v.Sink), cell(v.Kind, maxCell), v.State, fmt.Sprint(v.Retrying), fmt.Sprint(v.Waiting),
					fmt.Sprint(v.Dead), seconds(v.DueSeconds)})
			}
			return table(sh.out, rows)
		},
	}
}

// A sinkView is a sink in -o json.
type sinkView struct {
	store.SinkReport
	Kind string `json:"kind,omitempty"`
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
	defer resp.Body.Close() //nolint:errcheck // it was only read
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
