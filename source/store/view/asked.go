package view

import (
	"encoding/json"
	"time"

	"github.com/tailbox/tailbox/source/store"
)

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

// OfAsked returns the view of a request.
func OfAsked(a *store.Asked) Asked {
	v := Asked{ID: a.ID, Verb: string(a.Verb), By: a.By, Why: a.Reason, RequestedAt: a.RequestedAt, Changed: a.Result.Changed, Refused: a.Result.Refused,
		RefusedWhy: a.Result.Why, Note: a.Result.Note, Error: a.Result.Error, NewID: a.Result.NewID, Selection: a.Selects}
	if !a.DoneAt.IsZero() {
		v.DoneAt = &a.DoneAt
	}
	if !json.Valid(v.Selection) {
		v.Selection = nil
	}
	return v
}
