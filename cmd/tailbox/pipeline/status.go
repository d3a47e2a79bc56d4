package pipeline

import (
	"bufio"
	"context"
	"net/http"
	"regexp"
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
	states := sinkStates(ctx, p.Config.Admin.Listen, p.Config.Pipeline)
	r.NameSinks(p.Config.Router.Sinks(), func(sink string) string { return states[sink] })
	return r, nil
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
