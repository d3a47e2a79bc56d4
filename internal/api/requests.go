package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/view"
)

func (s *server) requestOperations() {
	register(s, "list-requests", http.MethodGet, "/requests", Viewer, "Lists what operators asked for, the newest first: the audit.", s.listRequests)
	register(s, "get-request", http.MethodGet, "/requests/{id}", Viewer, "Shows a request with its progress and result.", s.getRequest)
}

// Asked is a request as the audit shows it.
type Asked = view.Asked

// ofAsked is the view of a request for a role.
func ofAsked(a *store.Asked, role Role) Asked {
	v := view.OfAsked(a)
	if role >= Auditor {
		return v
	}
	// Texts of endpoints, of databases and of edits: a pattern for errors is a part of one, and so may be the reason of a row about feedback.
	shown := a.Selection
	shown.Edit, shown.Reason = nil, ""
	v.RefusedWhy, v.Note, v.Error = "", "", ""
	if a.Verb == "feedback" {
		v.Why = ""
	}
	text, err := json.Marshal(shown)
	if err != nil {
		text = nil // cannot be: texts and numbers alone
	}
	v.Selection = text
	return v
}

type requestsQuery struct {
	Page
}

type requestsAnswer struct {
	Body struct {
		Requests []Asked `json:"requests"`
		Next     string  `json:"next,omitempty" doc:"The cursor of the next page; absent at the end."`
	}
}

func (s *server) listRequests(ctx context.Context, in *requestsQuery) (*requestsAnswer, error) {
	var before int64
	if in.Cursor != "" {
		var err error
		if before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || before < 1 {
			return nil, errCursor()
		}
	}
	a := &requestsAnswer{}
	a.Body.Requests = []Asked{}
	err := s.ask(ctx, func(ctx context.Context) error {
		list, err := s.operator.Asked(ctx, before, in.Limit, false)
		for i := range list {
			a.Body.Requests = append(a.Body.Requests, ofAsked(&list[i], who(ctx).Role))
		}
		if len(list) == in.Limit && list[len(list)-1].ID > 1 {
			a.Body.Next = strconv.FormatInt(list[len(list)-1].ID, 10)
		}
		return err
	})
	return a, err
}

type requestQuery struct {
	ID int64 `path:"id" minimum:"1" maximum:"9007199254740991"`
}

type requestAnswer struct{ Body Asked }

func (s *server) getRequest(ctx context.Context, in *requestQuery) (*requestAnswer, error) {
	a := &requestAnswer{}
	err := s.ask(ctx, func(ctx context.Context) error {
		list, err := s.operator.Asked(ctx, in.ID+1, 1, who(ctx).Role >= Auditor)
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].ID != in.ID {
			return huma.Error404NotFound("the pipeline has no request with this id")
		}
		a.Body = ofAsked(&list[0], who(ctx).Role)
		return nil
	})
	return a, err
}
