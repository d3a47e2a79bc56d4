package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
	"github.com/tailbox/tailbox/internal/config"
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
	states := sinkStates(ctx, &p.Config.Admin, p.Config.Pipeline)
	r.NameSinks(p.Config.Router.Sinks(), p.Kind, func(sink string) string { return states[sink] })
	return r, nil
}

var (
	sinkStateLine = regexp.MustCompile(`^tailbox_sink_state\{pipeline="([^"]+)",sink="([^"]+)",state="([^"]+)"\} 1$`)
	metricLine    = regexp.MustCompile(`^(tailbox|go|process)_[a-z0-9_]+(\{.*\})? ([0-9.eE+-]+|NaN|[+-]Inf)$`)
	connectedLine = regexp.MustCompile(`^tailbox_source_connected\{pipeline="([^"]+)"\} 1$`)
)

// sinkStates asks the metrics of a relay; it knows nothing where none of this pipeline answers that reads the log.
func sinkStates(ctx context.Context, admin *config.Admin, pipeline string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, statesTimeout)
	defer cancel()
	text, err := Metrics(ctx, admin)
	if err != nil {
		return nil
	}
	states, reading := map[string]string{}, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := sinkStateLine.FindStringSubmatch(line); m != nil && m[1] == pipeline {
			states[m[2]] = m[3]
		}
		if m := connectedLine.FindStringSubmatch(line); m != nil && m[1] == pipeline {
			reading = true
		}
	}
	if !reading {
		return nil
	}
	return states
}

// maxMetrics bounds what is read of metrics, in bytes.
const maxMetrics = 16 << 20

// Metrics returns the metrics of the relay that serves the address of the configuration. What else another program says at that address is left out.
func Metrics(ctx context.Context, admin *config.Admin) (string, error) {
	if admin.Listen == "" {
		return "", errors.New("admin.listen is off, so that no relay serves metrics")
	}
	client, scheme := http.DefaultClient, "http"
	if admin.CertFile != "" {
		scheme = "https"
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: ownCertificate(admin.CertFile, admin.KeyFile), DisableKeepAlives: true}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+admin.Listen+"/metrics", nil)
	if err != nil {
		return "", fmt.Errorf("ask for metrics: %w", err)
	}
	if admin.MetricsTokenFile != "" {
		token, err := os.ReadFile(admin.MetricsTokenFile)
		if err != nil {
			return "", fmt.Errorf("read admin.metrics_token_file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+config.TokenIn(token))
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("no relay answers at admin.listen: %w", err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxMetrics))
	for lines.Scan() {
		if metricLine.MatchString(lines.Text()) {
			b.WriteString(lines.Text() + "\n")
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read metrics: %w", err)
	}
	return b.String(), nil
}

// ownCertificate accepts a server that shows the certificate of a file and no other: the address in the configuration need not be a name in it.
func ownCertificate(certFile, keyFile string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		own, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return fmt.Errorf("read admin.tls: %w", err)
		}
		if len(state.PeerCertificates) == 0 || !bytes.Equal(state.PeerCertificates[0].Raw, own.Certificate[0]) {
			return errors.New("it shows another certificate than that of admin.tls.cert_file")
		}
		return nil
	}}
}

// SinkName shows the empty name, which stands for messages that could not be routed.
func SinkName(name string) string {
	if name == "" {
		return "''"
	}
	return name
}
