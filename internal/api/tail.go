package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tailbox/tailbox/internal/tail"
)

const (
	// tailWrite bounds how long a client may take for what it is sent: then it is gone. tailIdle is how often a client gets a sign, and its token is looked at.
	tailWrite = 10 * time.Second
	tailIdle  = 15 * time.Second
)

type tailQuery struct {
	Sink    string `query:"sink"`
	Type    string `query:"type"`
	Group   string `query:"group"`
	Topic   string `query:"topic"`
	Payload bool   `query:"payload" doc:"Show the beginning of what messages hold. Needs the role auditor."`
	Seconds int    `query:"seconds" minimum:"1" maximum:"86400" doc:"End after this time. Default: never."`
}

func (s *server) tailOperations() {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[tail.Attempt](), true, "Attempt")
	register(s, "tail-deliveries", http.MethodGet, "/tail", Viewer,
		"Shows deliveries of the process that answers, as they happen. Server-sent events: the data of each is a delivery in JSON. At most 100 a second come, and skipped counts those left out. "+
			"The stream ends if its reader is too slow.", s.tail)
	responses := s.api.OpenAPI().Paths["/tail"].Get.Responses
	responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {Schema: schema}}
}

// tail streams what a watcher gets.
func (s *server) tail(ctx context.Context, in *tailQuery) (*huma.StreamResponse, error) {
	if in.Payload && who(ctx).Role < Auditor {
		return nil, huma.Error403Forbidden("payload shows what messages hold, and needs the role auditor: leave it out, or ask for a token with that role")
	}
	watcher, err := s.Tail.Watch(who(ctx).Name, tail.Filter{Sink: in.Sink, Type: in.Type, Group: in.Group, Topic: in.Topic, Payload: in.Payload})
	switch {
	case errors.Is(err, tail.ErrOften):
		return nil, huma.Error503ServiceUnavailable(fmt.Sprintf("%s watches %d times already: close one", who(ctx).Name, tail.MostOfOne))
	case err != nil:
		return nil, huma.Error503ServiceUnavailable(fmt.Sprintf("%d clients watch already: close one", tail.MostWatchers))
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer s.Tail.Leave(watcher)
		var end <-chan time.Time
		if in.Seconds > 0 {
			end = time.After(time.Duration(in.Seconds) * time.Second)
		}
		hc.SetHeader("Content-Type", "text/event-stream")
		w, ok := hc.BodyWriter().(http.ResponseWriter)
		if !ok {
			return // cannot be: the adapter writes to one
		}
		stream(ctx, w, watcher, end, func() bool { return still(ctx) })
	}}, nil
}

// stream sends deliveries to a client until one of them ends: the client, the watcher, the time, or what the client may.
func stream(ctx context.Context, w http.ResponseWriter, watcher *tail.Watcher, end <-chan time.Time, may func() bool) {
	control := http.NewResponseController(w)
	send := func(text string) bool {
		// A connection without deadlines has none to set; the write fails if the client is gone.
		_ = control.SetWriteDeadline(time.Now().Add(tailWrite))
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	idle := time.NewTicker(tailIdle)
	defer idle.Stop()
	for alive := send(": this is the live tail\nretry: 100\n\n"); alive; { // a browser that is cut off asks again at once
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-idle.C:
			alive = may() && send(": nothing happens\n\n")
		case d, ok := <-watcher.C:
			if !ok {
				return
			}
			text, err := events(d, watcher.C)
			alive = err == nil && send(text)
		}
	}
}

// events are a delivery and those that wait behind it: a busy relay gives a watcher what it gets of a second at once, and to send each alone costs as much as
// the delivery of hundreds of messages.
func events(d tail.Attempt, behind <-chan tail.Attempt) (string, error) {
	var text strings.Builder
	for {
		data, err := json.Marshal(d)
		if err != nil {
			return "", err
		}
		text.WriteString("data: " + string(data) + "\n\n")
		select {
		case next, ok := <-behind:
			if !ok {
				return text.String(), nil
			}
			d = next
		default:
			return text.String(), nil
		}
	}
}
