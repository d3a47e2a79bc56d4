package api

import (
	"context"
	"net/http"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store/operate"
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
	Sink  string   `query:"sink"`
	Group []string `query:"group,explode"`
	Limit int      `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

type groupsAnswer struct {
	Body struct {
		Groups []view.Group `json:"groups"`
		More   bool         `json:"more,omitempty" doc:"There may be more."`
	}
}

func (s *server) listGroups(ctx context.Context, in *groupsQuery) (*groupsAnswer, error) {
	a := &groupsAnswer{}
	err := s.ask(ctx, func(ctx context.Context) error {
		lanes, err := s.operator.Lanes(ctx, checkpoint.Selection{Sink: in.Sink, Groups: in.Group}, in.Limit)
		a.Body.Groups, a.Body.More = view.OfLanes(lanes), blocked(lanes) >= in.Limit
		return err
	})
	for _, g := range a.Body.Groups {
		if g.First != nil {
			visible(ctx, g.First)
		}
	}
	return a, err
}

// blocked counts the groups that have deliveries: those that are only held are beyond the limit.
func blocked(lanes []operate.WaitingLane) (n int) {
	for i := range lanes {
		if lanes[i].First != nil {
			n++
		}
	}
	return n
}
