package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/report"
)

func (s *server) sinkOperations() {
	register(s, "list-sinks", http.MethodGet, "/sinks", Viewer, "Lists the sinks with their states and what waits for each.", s.listSinks)
	for _, v := range []struct {
		verb  checkpoint.Verb
		about string
	}{
		{checkpoint.VerbPause, "Pauses a sink: it gets no deliveries until it is resumed."},
		{checkpoint.VerbResume, "Ends the pause of a sink."},
	} {
		register(s, string(v.verb)+"-sink", http.MethodPost, "/sinks/{name}:"+string(v.verb), Operator, v.about, func(ctx context.Context, in *sinkVerb) (*askedAnswer, error) {
			if !s.hasSink(in.Name) {
				return nil, huma.Error404NotFound("the configuration has no sink with this name")
			}
			why := ""
			if in.Body != nil {
				why = in.Body.Why
			}
			return s.request(ctx, v.verb, checkpoint.Selection{Sinks: []string{in.Name}}, why, false)
		})
	}
}

type sinkVerb struct {
	Name string `path:"name"`
	Body *struct {
		Why string `json:"why,omitempty" maxLength:"10000" doc:"A reason for the audit."`
	}
}

func (s *server) hasSink(name string) bool { return slices.Contains(s.Sinks(), name) }

type sinksAnswer struct {
	Body struct {
		Sinks []report.SinkCount `json:"sinks"`
	}
}

func (s *server) listSinks(ctx context.Context, _ *struct{}) (*sinksAnswer, error) {
	st, _, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	a := &sinksAnswer{}
	a.Body.Sinks = append([]report.SinkCount{}, st.Sinks...)
	return a, nil
}
