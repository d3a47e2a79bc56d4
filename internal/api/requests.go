package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tailbox/tailbox/source/store"
)

func (s *server) requestOperations() {
	register(s, "list-requests", http.MethodGet, "/requests", Viewer, "Lists what operators asked for, the newest first: the audit.", s.listRequests)
	register(s, "get-request", http.MethodGet, "/requests/{id}", Viewer, "Shows a request with its progress and result.", s.getRequest)
}

// Asked is a request as the audit shows it.
type Asked struct {
	ID          int64           `json:"id"`
	Verb        string          `json:"verb"`
	By          string          `json:"by" doc:"The name of the token, or the login by which the database knows who asked."`
	Why         string          `json:"why,omitempty"`
	RequestedAt time.Time       `json:"requested_at"`
	DoneAt      *time.Time      `json:"done_at,omitempty" doc:"Absent until it is carried out."`
	Changed     int             `json:"changed" doc:"Deliveries, groups or sinks that were changed so far."`
	Refused     int             `json:"refused,omitempty" doc:"Deliveries that were left alone, for the reason in refused_why."`
	RefusedWhy  string          `json:"refused_why,omitempty"`
	Note        string          `json:"note,omitempty"`
	Error       string          `json:"error,omitempty" doc:"Why the request as a whole was not carried out."`
	NewID       string          `json:"new_id,omitempty" doc:"The id that an edit gave the message."`
	Selection   json.RawMessage `json:"selection,omitempty" doc:"What was selected. What an edit wrote needs the role auditor."`
}

// ofAsked is the view of a request for a role.
func ofAsked(a *store.Asked, role Role) Asked {
	v := Asked{ID: a.ID, Verb: string(a.Verb), By: a.By, Why: a.Reason, RequestedAt: a.RequestedAt, Changed: a.Result.Changed, Refused: a.Result.Refused,
		RefusedWhy: a.Result.Why, Note: a.Result.Note, Error: a.Result.Error, NewID: a.Result.NewID, Selection: a.Selects}
	if !a.DoneAt.IsZero() {
		v.DoneAt = &a.DoneAt
	}
	if !json.Valid(v.Selection) {
		v.Selection = nil
	}
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
			return nil, huma.Error422UnprocessableEntity("cursor is none that this list has returned: leave it out to begin anew")
		}
	}
	a := &requestsAnswer{}
	a.Body.Requests = []Asked{}
	err := s.ask(ctx, func(ctx context.Context) error {
		list, err := s.Database.Operator().Asked(ctx, before, in.Limit, false)
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
		list, err := s.Database.Operator().Asked(ctx, in.ID+1, 1, who(ctx).Role >= Auditor)
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
