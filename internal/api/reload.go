package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// reloadWait is how long a request waits for a reload, which ends what is in flight first: less than the server gives an answer.
const reloadWait = 20 * time.Second

// Reloaded is what a reload of the configuration has changed, or a dry run would change.
type Reloaded struct {
	Changed  []string `json:"changed" doc:"The keys by which the file differs from what was in force."`
	Warnings []string `json:"warnings,omitempty" doc:"What the sinks of the new configuration find wrong."`
}

// ErrRefused is the error of a reload that an operator has to change something for. What was in force stays so.
var ErrRefused = errors.New("the configuration in force stays")

type reloadQuery struct {
	DryRun bool `query:"dry_run" doc:"Change nothing: answer whether the file could be taken over."`
}

type reloadAnswer struct {
	Status int
	Body   struct {
		State string `json:"state" enum:"done,dry run,under way" doc:"Done: the new configuration is in force. Under way: the log and the metrics will tell."`
		Reloaded
	}
}

func (s *server) configOperations() {
	register(s, "reload-config", http.MethodPost, "/config:reload", Admin, "Reads the configuration again, as SIGHUP does, in the process that answers. "+
		"If the file is wrong, or changes what needs a restart, the answer says why, and the configuration in force stays.", s.reload)
}

func (s *server) reload(ctx context.Context, in *reloadQuery) (*reloadAnswer, error) {
	type result struct {
		*Reloaded
		error
	}
	ended := make(chan result, 1)
	s.Logger.Info("somebody asks to reload the configuration", "by", who(ctx).Name, "dry_run", in.DryRun)
	go func() { // it goes on if the client goes away
		r, err := s.Reload(context.WithoutCancel(ctx), in.DryRun)
		ended <- result{r, err}
	}()
	a := &reloadAnswer{Status: http.StatusOK}
	a.Body.Changed = []string{}
	select {
	case r := <-ended:
		switch {
		case errors.Is(r.error, ErrRefused):
			return nil, huma.Error422UnprocessableEntity(r.Error())
		case r.error != nil:
			return nil, huma.Error503ServiceUnavailable(r.Error())
		}
		a.Body.State, a.Body.Reloaded = "done", *r.Reloaded
		if in.DryRun {
			a.Body.State = "dry run"
		}
	case <-time.After(reloadWait):
		a.Status, a.Body.State = http.StatusAccepted, "under way"
	}
	return a, nil
}
