package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/tailbox/tailbox/internal/history"
	"github.com/tailbox/tailbox/source/store/check"
	"github.com/tailbox/tailbox/source/store/report"
)

// A line is a name with a text, as tailbox status prints it.
type line struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

type pipelineAnswer struct {
	Body struct {
		Pipeline      string         `json:"pipeline"`
		Version       string         `json:"version" doc:"The version of the process that answers."`
		UptimeSeconds float64        `json:"uptime_seconds" doc:"Of the process that answers."`
		Running       bool           `json:"running" doc:"A relay holds the pipeline's lock."`
		Relay         string         `json:"relay" doc:"Which session holds the lock, and from where."`
		Source        string         `json:"source"`
		Log           []line         `json:"log" doc:"How far the log is read."`
		RetainedBytes *int64         `json:"retained_bytes,omitempty" doc:"How much log the server keeps for the pipeline. Absent if unknown, or if it keeps none for a reader, as MySQL and MariaDB."`
		LagBytes      *int64         `json:"lag_bytes,omitempty" doc:"How much of the log follows the checkpoint. Absent if unknown."`
		Waiting       string         `json:"waiting,omitempty" doc:"Why the server sends nothing to the relay."`
		Status        map[string]any `json:"status" doc:"What tailbox status -o json prints."`
	}
}

func (s *server) pipelineOperations() {
	register(s, "get-pipeline", http.MethodGet, "/pipeline", Viewer, "Shows the pipeline: who relays, positions, lag, sinks and dead letters.", s.getPipeline)
	register(s, "get-source", http.MethodGet, "/source", Viewer, "Shows the log's position and lag, and on request what a check of the database finds.", s.getSource)
	register(s, "get-stats", http.MethodGet, "/stats", Viewer, "Shows the last hour of the process that answers: how many messages it read, delivered and gave up, and how far it was behind.", s.getStats)
	register(s, "get-config", http.MethodGet, "/config", Auditor,
		"Shows the configuration of the process that answers, with defaults filled in and secrets masked.", s.getConfig)
}

type configAnswer struct {
	Body struct {
		YAML string `json:"yaml" doc:"What tailbox config show prints."`
	}
}

func (s *server) getConfig(context.Context, *struct{}) (*configAnswer, error) {
	a := &configAnswer{}
	a.Body.YAML = s.Configuration()
	return a, nil
}

// status returns the status of the pipeline, with every sink of the configuration in it, and what tailbox status -o json prints of it. What is parked may
// have been counted ten times as long ago as that took.
func (s *server) status(ctx context.Context) (st *report.Status, whole map[string]any, err error) {
	found, err := askOnce(ctx, s, s.statuses, "", s.Database.Status)
	if err != nil {
		return nil, nil, err
	}
	s.naming.Lock()
	found.NameSinks(s.Sinks(), s.Kind, s.State)
	st, part := new(*found), *found.Report
	part.Sinks, part.Feedback = slices.Clone(part.Sinks), slices.Clone(part.Feedback)
	st.Report = &part
	text, err := json.Marshal(found.Whole)
	s.naming.Unlock()
	if err == nil {
		err = json.Unmarshal(text, &whole)
	}
	if who(ctx).Role < Auditor { // the errors of statements repeat what rows hold
		for i := range st.Feedback {
			st.Feedback[i].Error = ""
		}
		if failures, ok := whole["feedback_failures"].([]any); ok {
			for _, f := range failures {
				f.(map[string]any)["error"] = ""
			}
		}
	}
	return st, whole, err
}

func (s *server) getPipeline(ctx context.Context, _ *struct{}) (*pipelineAnswer, error) {
	st, whole, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	a := &pipelineAnswer{}
	b := &a.Body
	b.Pipeline, b.Version, b.UptimeSeconds = s.Pipeline, s.Version, time.Since(s.Started).Seconds()
	b.Running, b.Relay, b.Source, b.Waiting = st.Running, st.Relay, st.Source, st.Waiting
	b.Log = linesOf(st)
	b.RetainedBytes, b.LagBytes = known(st.RetainedBytes), known(st.LagBytes)
	b.Status = whole
	return a, nil
}

// linesOf are the lines of a status that say how far the log is read.
func linesOf(st *report.Status) []line {
	lines := []line{}
	for _, row := range st.Log {
		if len(row) == 2 {
			lines = append(lines, line{row[0], row[1]})
		}
	}
	return lines
}

// known is nil for -1, which stands for a number that is not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

type sourceQuery struct {
	Check bool `query:"check" doc:"Look at the database as tailbox check does, without the sinks and examples of messages. It takes some seconds."`
}

// A finding is one of tailbox check.
type finding struct {
	Level check.Level `json:"level"`
	What  string      `json:"what"`
	Fix   string      `json:"fix,omitempty"`
}

type sourceAnswer struct {
	Body struct {
		Source   string    `json:"source"`
		Log      []line    `json:"log" doc:"How far the log is read."`
		Findings []finding `json:"findings,omitempty"`
	}
}

func (s *server) getSource(ctx context.Context, in *sourceQuery) (*sourceAnswer, error) {
	st, _, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	a := &sourceAnswer{}
	a.Body.Source, a.Body.Log = st.Source, linesOf(st)
	if !in.Check {
		return a, nil
	}
	err = s.askIn(ctx, s.checks, checkTime, func(ctx context.Context) error {
		found, err := s.Database.Check(ctx)
		for _, f := range found {
			a.Body.Findings = append(a.Body.Findings, finding{f.Level, s.Hide(f.What), s.Hide(f.Fix)})
		}
		return err
	})
	return a, err
}

type statsQuery struct {
	Minutes int `query:"minutes" minimum:"1" maximum:"60" default:"60" doc:"How far back."`
}

type statsAnswer struct {
	Body struct {
		EverySeconds float64         `json:"every_seconds" doc:"The time between two points."`
		Points       []history.Point `json:"points" doc:"The oldest first; those since the process that answers started."`
	}
}

func (s *server) getStats(_ context.Context, in *statsQuery) (*statsAnswer, error) {
	a := &statsAnswer{}
	a.Body.EverySeconds = history.Every.Seconds()
	a.Body.Points = s.History(time.Now().Add(-time.Duration(in.Minutes) * time.Minute))
	return a, nil
}
