package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/view"
)

// A summary is what a question found at a time. Nobody changes it.
type summary struct {
	failures []view.Failure
	partial  bool
	asOf     time.Time
}

type summaryQuery struct {
	By    []string `query:"by" enum:"class,type,sink" minItems:"1" default:"class,sink" doc:"What a group has in common."`
	State []string `query:"state,explode" enum:"retrying,waiting,dead" default:"dead"`
}

type summaryAnswer struct {
	Body struct {
		Failures []view.Failure `json:"failures"`
		AsOf     time.Time      `json:"as_of" doc:"When they were counted: at most 10 s ago."`
		Partial  bool           `json:"partial,omitempty" doc:"Not all is counted: at most the newest 250000 dead letters, or for other states 30000 deliveries, and 500 groups."`
	}
}

func (s *server) summarize(ctx context.Context, in *summaryQuery) (*summaryAnswer, error) {
	by, states := slices.Compact(slices.Sorted(slices.Values(in.By))), slices.Compact(slices.Sorted(slices.Values(in.State)))
	question := strings.Join(by, ",") + " " + strings.Join(states, ",")
	found, err := askOnce(ctx, s, s.summaries, question, func(ctx context.Context) (*summary, error) { return s.count(ctx, by, states) })
	if err != nil {
		return nil, err
	}
	a := &summaryAnswer{}
	a.Body.Failures, a.Body.AsOf, a.Body.Partial = slices.Clone(found.failures), found.asOf, found.partial
	for i := range a.Body.Failures {
		if f := &a.Body.Failures[i]; f.Example != nil {
			example := *f.Example // it is shared by those who ask, of whatever role
			visible(ctx, &example)
			f.Example = &example
		}
	}
	return a, nil
}

func (s *server) count(ctx context.Context, by, in []string) (*summary, error) {
	causes := make([]operate.Cause, len(by))
	for i, name := range by {
		causes[i] = operate.Cause(name)
	}
	at := time.Now()
	found, err := s.operator.Summarize(ctx, states(in), causes)
	if err != nil {
		return nil, err
	}
	return &summary{view.OfFailures(found.Failures, causes), found.Partial, at}, nil
}
