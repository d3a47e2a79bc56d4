package api

import (
	"context"
	"net/http"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/view"
)

func (s *server) groupOperations() {
	register(s, "list-groups", http.MethodGet, "/groups", Viewer, "Lists the message groups that wait, and the delivery that each waits for.", s.listGroups)
	for _, v := range []struct {
		verb  checkpoint.Verb
		about string
	}{
		{checkpoint.VerbHold, "Holds groups: their deliveries wait until they are resumed."},
		{checkpoint.VerbResume, "Ends the hold of groups."},
		{checkpoint.VerbSkip, "Lets groups go on without the dead deliveries at their heads. These stay dead letters."},
		{checkpoint.VerbReplay, "Makes the dead deliveries of groups due again, in order."},
	} {
		register(s, string(v.verb)+"-groups", http.MethodPost, "/groups:"+string(v.verb), Operator, v.about, func(ctx context.Context, in *groupsBody) (*askedAnswer, error) {
			sel := checkpoint.Selection{Groups: in.Body.Groups, Sink: in.Body.Sink}
			return s.request(ctx, v.verb, sel, in.Body.Why, false)
		})
	}
}

type groupsBody struct {
	Body struct {
		Groups []string `json:"groups" minItems:"1" maxItems:"10000"`
		Sink   string   `json:"sink,omitempty" doc:"Only at this sink. Default: at all sinks."`
		Why    string   `json:"why,omitempty" maxLength:"10000"`
	}
}

type groupsQuery struct {
	Page
	Sink  string   `query:"sink"`
	Group []string `query:"group,explode"`
}

type groupsAnswer struct {
	Body struct {
		Groups []view.Group `json:"groups"`
		Next   string       `json:"next,omitempty" doc:"The cursor of the next page; absent at the end."`
	}
}

func (s *server) listGroups(ctx context.Context, in *groupsQuery) (*groupsAnswer, error) {
	after, err := placeOf[checkpoint.Lane](in.Cursor)
	if err != nil {
		return nil, err
	}
	if after == nil {
		after = &checkpoint.Lane{}
	}
	a := &groupsAnswer{}
	err = s.ask(ctx, func(ctx context.Context) error {
		lanes, next, err := s.operator.Lanes(ctx, checkpoint.Selection{Sink: in.Sink, Groups: in.Group}, *after, in.Limit)
		a.Body.Groups, a.Body.Next = view.OfLanes(lanes), cursorOf(next)
		return err
	})
	for _, g := range a.Body.Groups {
		if g.First != nil {
			visible(ctx, g.First)
		}
	}
	return a, err
}
