package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ofPipeline is the label that all metrics of a relay have.
var ofPipeline = regexp.MustCompile(`\{pipeline="[^"]*"\}|pipeline="[^"]*",|,pipeline="[^"]*"`)

// Metrics reads what a relay serves under /metrics: values by name and labels, as they are written, but for the label pipeline.
func Metrics(addr string) (map[string]float64, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer answer.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		text := lines.Text()
		at := strings.LastIndexByte(text, ' ')
		if strings.HasPrefix(text, "#") || at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(text[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %q: %w", text, err)
		}
		values[ofPipeline.ReplaceAllString(text[:at], "")] = value
	}
	return values, lines.Err()
}

// Quantile is the q-th part of durations, which it sorts; 0 of none.
func Quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(int(q*float64(len(ds))), len(ds)-1)]
}
