package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/view"
)

func (s *server) deliveryOperations() {
	register(s, "list-deliveries", http.MethodGet, "/deliveries", Viewer, "Lists dead letters and deliveries that wait, by sink, group and position, or the newest first.", s.listDeliveries)
	register(s, "summarize-deliveries", http.MethodGet, "/deliveries/summary", Viewer, "Counts dead letters by the class of the error, the message's type and the sink, the most frequent first.",
		s.summarize)
	register(s, "get-delivery", http.MethodGet, "/deliveries/{id}", Auditor, "Shows a message with its payload and headers, at each sink where it is dead or waits.", s.getDelivery)
	register(s, "find-delivery", http.MethodGet, "/delivery", Auditor, "Shows a message by its id, as GET /deliveries/{id} does, also if the id cannot stand in a path, such as .. does.",
		func(ctx context.Context, in *deliveryByID) (*deliveryAnswer, error) {
			return s.getDelivery(ctx, (*deliveryQuery)(in))
		})
	register(s, "replay-deliveries", http.MethodPost, "/deliveries:replay", Operator, "Makes dead deliveries due again, each group in its order. Their attempts are counted anew.", s.replay)
	register(s, "drop-deliveries", http.MethodPost, "/deliveries:drop", Operator, "Gives deliveries up for good.", s.drop)
	register(s, "edit-delivery", http.MethodPost, "/deliveries:edit", Operator,
		"Changes a dead message and replays it under a new id, in its old place. The header tailbox-replaces names the old id.", s.edit)
}

// Page is where a list goes on.
type Page struct {
	Cursor string `query:"cursor" maxLength:"65536" doc:"The next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

// Orders of a list of deliveries.
const (
	byPosition = "position"
	byNewest   = "newest"
)

type deliveriesQuery struct {
	Page
	Order    string    `query:"order" enum:"position,newest" default:"position" doc:"position: by sink, group and position. newest: dead letters alone, the one that died last first."`
	Since    time.Time `query:"since" doc:"Only what died at this time or later. It needs order=newest."`
	Until    time.Time `query:"until" doc:"Only what died before this time. It needs order=newest."`
	State    []string  `query:"state,explode" enum:"retrying,waiting,dead" default:"dead"`
	Sink     string    `query:"sink"`
	Group    []string  `query:"group,explode"`
	ID       []string  `query:"id,explode" maxItems:"500"`
	Table    string    `query:"table"`
	Unrouted bool      `query:"unrouted" doc:"Only deliveries for which no sink could be chosen."`
	Type     string    `query:"type" doc:"A pattern with * and ?. A backslash takes the character behind it as it is, and stands for the empty text if it is alone."`
	Topic    string    `query:"topic" doc:"A pattern, as type is."`
	Tenant   string    `query:"tenant" doc:"A pattern, as type is."`
	Search   string    `query:"q" doc:"A text that is part of the message's id, its group or its key."`
	Class    string    `query:"class" pattern:"^[a-z_]{1,32}$" doc:"The class of the error."`
	Reason   string    `query:"reason" doc:"A pattern with * and ? for the error or its class. It needs the role auditor."`
}

type deliveriesAnswer struct {
	Body struct {
		Deliveries []view.Delivery `json:"deliveries"`
		Next       string          `json:"next,omitempty" doc:"The cursor of the next page; absent at the end. A page may be short, or empty, although there is a next one."`
	}
}

// selection is what the query asks for, or what is wrong with it.
func (in *deliveriesQuery) selection(role Role) (sel checkpoint.Selection, err error) {
	sel = checkpoint.Selection{IDs: in.ID, Sink: in.Sink, Table: in.Table, Groups: in.Group, Type: in.Type, Topic: in.Topic, Tenant: in.Tenant, Search: in.Search,
		Reason: in.Reason, States: states(in.State), Unrouted: in.Unrouted}
	if in.Class != "" {
		sel.Reason = in.Class // it matches errors, too: the class's pattern keeps a viewer from guessing at what endpoints answered
	}
	switch {
	case in.Reason != "" && role < Auditor:
		return sel, huma.Error403Forbidden("reason matches what endpoints answered, and needs the role auditor: leave it out, or ask for a token with that role")
	case in.Class != "" && in.Reason != "":
		err = huma.Error422UnprocessableEntity("class and reason are both set: keep one of the two, reason matches classes too")
	case in.Unrouted && in.Sink != "":
		err = huma.Error422UnprocessableEntity("unrouted deliveries have no sink: leave out one of unrouted and sink")
	case in.Order == byNewest && !operate.OnlyDead(sel.States):
		err = huma.Error422UnprocessableEntity("order=newest is for dead letters alone: leave out the other states, or order")
	case in.Order != byNewest && !(in.Since.IsZero() && in.Until.IsZero()):
		err = huma.Error422UnprocessableEntity("since and until are the times at which deliveries died: add order=newest")
	}
	return sel, err
}

func (s *server) listDeliveries(ctx context.Context, in *deliveriesQuery) (*deliveriesAnswer, error) {
	sel, err := in.selection(who(ctx).Role)
	if err != nil {
		return nil, err
	}
	a := &deliveriesAnswer{}
	o := s.operator
	if in.Order == byNewest {
		a.Body.Deliveries, a.Body.Next, err = listPage(ctx, s, in.Cursor, func(ctx context.Context, after *operate.DeadKey) ([]store.Listed, *operate.DeadKey, error) {
			return o.Newest(ctx, sel, operate.Span{Since: in.Since, Until: in.Until}, after, in.Limit)
		})
	} else {
		a.Body.Deliveries, a.Body.Next, err = listPage(ctx, s, in.Cursor, func(ctx context.Context, after *store.ParkedKey) ([]store.Listed, *store.ParkedKey, error) {
			return o.Page(ctx, sel, after, in.Limit)
		})
	}
	for i := range a.Body.Deliveries {
		visible(ctx, &a.Body.Deliveries[i])
	}
	return a, err
}

// listPage reads a page of deliveries behind the place that a cursor stands for.
func listPage[K any](ctx context.Context, s *server, cursor string, read func(context.Context, *K) ([]store.Listed, *K, error)) (list []view.Delivery, next string, err error) {
	after, err := placeOf[K](cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.ask(ctx, func(ctx context.Context) error {
		found, place, err := read(ctx, after)
		list, next = view.OfDeliveries(found), cursorOf(place)
		return err
	})
	return list, next, err
}

// visible leaves of a delivery what the one who asks may see: endpoints' answers, which errors repeat, need the role auditor.
func visible(ctx context.Context, d *view.Delivery) {
	if who(ctx).Role < Auditor {
		d.LastError = ""
	}
}

func states(names []string) []checkpoint.State {
	all := make([]checkpoint.State, len(names))
	for i, name := range names {
		all[i] = checkpoint.State(name)
	}
	return all
}

// placeOf returns the place that a cursor stands for; nil if it is empty.
func placeOf[K any](cursor string) (*K, error) {
	if cursor == "" {
		return nil, nil
	}
	after, err := readCursor[K](cursor)
	if err != nil {
		return nil, errCursor()
	}
	return after, nil
}

func errCursor() error {
	return huma.Error422UnprocessableEntity("cursor is none that this list has returned: leave it out to begin anew")
}

// A cursor is a place in base64, so that it can stand in an address. It holds no more than the list itself shows.
func cursorOf[K any](k *K) string {
	if k == nil {
		return ""
	}
	var text bytes.Buffer
	write := json.NewEncoder(&text)
	write.SetEscapeHTML(false) // or ids of such characters would make it six times as long
	if err := write.Encode(k); err != nil {
		return "" // cannot be: texts alone
	}
	return base64.RawURLEncoding.EncodeToString(text.Bytes())
}

func readCursor[K any](cursor string) (*K, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, err
	}
	k, read := new(K), json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields() // as that of the other order has
	if err := read.Decode(k); err != nil {
		return nil, err
	}
	var texts map[string]any
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, err
	}
	for _, v := range texts {
		if s, ok := v.(string); ok && unwritable(s) {
			return nil, errUnwritable()
		}
	}
	return k, nil
}

type deliveryQuery struct {
	ID    string `path:"id" doc:"The id of the message, or the one that an edit gave it."`
	Sink  string `query:"sink"`
	Table string `query:"table"`
}

// deliveryByID is a deliveryQuery whose id is no part of the path.
type deliveryByID struct {
	ID    string `query:"id" required:"true" minLength:"1"`
	Sink  string `query:"sink"`
	Table string `query:"table"`
}

type deliveryAnswer struct {
	Body struct {
		Deliveries []view.Message `json:"deliveries"`
		More       bool           `json:"more,omitempty" doc:"There are more, whose payloads are too large to be shown at once: ask for one sink."`
	}
}

func (s *server) getDelivery(ctx context.Context, in *deliveryQuery) (*deliveryAnswer, error) {
	sel := checkpoint.Selection{IDs: []string{in.ID}, Sink: in.Sink, Table: in.Table,
		States: []checkpoint.State{checkpoint.StateDead, checkpoint.StateRetrying, checkpoint.StateWaiting}}
	a := &deliveryAnswer{}
	err := s.ask(ctx, func(ctx context.Context) error {
		found, more, err := s.operator.Whole(ctx, sel)
		a.Body.Deliveries, a.Body.More = view.OfMessages(found), more
		return err
	})
	if err == nil && len(a.Body.Deliveries) == 0 {
		return nil, huma.Error404NotFound("no delivery of a message with this id is dead or waits: it is delivered, was dropped, or never was")
	}
	return a, err
}

// A selection says which deliveries an operation is about. What is set must all match.
type selection struct {
	IDs          []string `json:"ids,omitempty" maxItems:"10000"`
	Sink         string   `json:"sink,omitempty"`
	Table        string   `json:"table,omitempty" doc:"The outbox table, if messages of several tables have the id."`
	Groups       []string `json:"groups,omitempty" maxItems:"10000"`
	Type         string   `json:"type,omitempty" doc:"A pattern with * and ?. A backslash takes the character behind it as it is, and stands for the empty text if it is alone."`
	Topic        string   `json:"topic,omitempty" doc:"A pattern, as type is."`
	Tenant       string   `json:"tenant,omitempty" doc:"A pattern, as type is."`
	Search       string   `json:"q,omitempty" doc:"A text that is part of the message's id, its group or its key."`
	Reason       string   `json:"reason,omitempty" doc:"A pattern with * and ? for the error or its class."`
	States       []string `json:"states,omitempty" enum:"retrying,waiting,dead" doc:"Default: dead."`
	Limit        int      `json:"limit,omitempty" minimum:"0" doc:"At most so many deliveries."`
	All          bool     `json:"all,omitempty" doc:"Required if nothing else is set."`
	Unrouted     bool     `json:"unrouted,omitempty" doc:"Deliveries for which no sink could be chosen."`
	AllowReorder bool     `json:"allow_reorder,omitempty" doc:"Also replay deliveries whose group has gone on: they then come out of order."`
	DryRun       bool     `json:"dry_run,omitempty" doc:"Change nothing: answer what the selection finds."`
	Why          string   `json:"why,omitempty" maxLength:"10000" doc:"A reason for the audit."`
}

func (in *selection) of() checkpoint.Selection {
	return checkpoint.Selection{IDs: in.IDs, Sink: in.Sink, Table: in.Table, Groups: in.Groups, Type: in.Type, Topic: in.Topic, Tenant: in.Tenant, Search: in.Search,
		Reason: in.Reason, States: states(in.States), Limit: in.Limit, All: in.All, Unrouted: in.Unrouted, AllowReorder: in.AllowReorder}
}

type selectionBody struct{ Body selection }

// dryRunLimit is how many deliveries a dry run shows.
const dryRunLimit = 100

type askedAnswer struct {
	Status int `json:"-"`
	Body   struct {
		Request    int64           `json:"request,omitempty" doc:"The id of the request: GET /requests/{id} shows its progress and result."`
		Deliveries []view.Delivery `json:"deliveries,omitempty" doc:"Of a dry run: what the selection finds, the first 100."`
		More       bool            `json:"more,omitempty" doc:"Of a dry run: there are more."`
	}
}

func (s *server) replay(ctx context.Context, in *selectionBody) (*askedAnswer, error) {
	return s.request(ctx, checkpoint.VerbReplay, in.Body.of(), in.Body.Why, in.Body.DryRun)
}

func (s *server) drop(ctx context.Context, in *selectionBody) (*askedAnswer, error) {
	if in.Body.Why == "" && !in.Body.DryRun {
		return nil, huma.Error422UnprocessableEntity("why is missing: say why the deliveries are given up; the audit keeps it")
	}
	return s.request(ctx, checkpoint.VerbDrop, in.Body.of(), in.Body.Why, in.Body.DryRun)
}

type editBody struct {
	Body struct {
		ID            string            `json:"id" minLength:"1"`
		Sink          string            `json:"sink,omitempty" doc:"Only the delivery to this sink. Default: those to all sinks."`
		Table         string            `json:"table,omitempty"`
		Payload       *string           `json:"payload,omitempty"`
		PayloadBase64 *string           `json:"payload_base64,omitempty" doc:"A payload that is no UTF-8, instead of payload."`
		Type          *string           `json:"type,omitempty"`
		Topic         *string           `json:"topic,omitempty"`
		Key           *string           `json:"key,omitempty"`
		Headers       map[string]string `json:"headers,omitempty" doc:"Headers to add or replace."`
		NewID         string            `json:"new_id,omitempty" doc:"Default: a random UUID."`
		AllowReorder  bool              `json:"allow_reorder,omitempty"`
		Why           string            `json:"why,omitempty" maxLength:"10000"`
	}
}

func (s *server) edit(ctx context.Context, in *editBody) (*askedAnswer, error) {
	b := &in.Body
	e := &checkpoint.Edit{Type: b.Type, Topic: b.Topic, Key: b.Key, Headers: b.Headers, NewID: b.NewID}
	payload, err := payloadOf(b.Payload, b.PayloadBase64)
	switch {
	case err != nil:
		return nil, err
	case payload != nil:
		e.Payload = &payload
	case b.Type == nil && b.Topic == nil && b.Key == nil && len(b.Headers) == 0 && b.NewID == "":
		return nil, huma.Error422UnprocessableEntity("nothing is changed: set payload, type, topic, key, headers or new_id; to send the message as it is, use /deliveries:replay")
	}
	sel := checkpoint.Selection{IDs: []string{b.ID}, Sink: b.Sink, Table: b.Table, AllowReorder: b.AllowReorder, Edit: e}
	return s.request(ctx, checkpoint.VerbEdit, sel, b.Why, false)
}

// payloadOf returns the payload of a body, which has it as text or in base64; nil if it has none.
func payloadOf(text, encoded *string) ([]byte, error) {
	switch {
	case text != nil && encoded != nil:
		return nil, huma.Error422UnprocessableEntity("payload and payload_base64 are both set: keep one of the two")
	case text != nil:
		return []byte(*text), nil
	case encoded == nil:
		return nil, nil
	}
	payload, err := base64.StdEncoding.DecodeString(*encoded)
	if err != nil {
		return nil, huma.Error422UnprocessableEntity("payload_base64 is no base64: " + err.Error())
	}
	return payload, nil
}

// editTexts are the texts of an edit. A payload may hold anything.
func editTexts(e *checkpoint.Edit) (texts []string) {
	if e == nil {
		return nil
	}
	for _, text := range []*string{e.Type, e.Topic, e.Key} {
		if text != nil {
			texts = append(texts, *text)
		}
	}
	for name, value := range e.Headers {
		texts = append(texts, name, value)
	}
	return append(texts, e.NewID)
}

// unwritable reports whether a text is none that every database can hold.
func unwritable(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }

func errUnwritable() error {
	return huma.Error422UnprocessableEntity("a text holds NUL or is no UTF-8, so that nothing can match it: correct it")
}

// request writes a request in the name of the one who asks, or, of a dry run, shows what the selection finds.
func (s *server) request(ctx context.Context, verb checkpoint.Verb, sel checkpoint.Selection, why string, dry bool) (*askedAnswer, error) {
	r := &checkpoint.Request{Verb: verb, Selection: sel, Reason: why}
	if err := store.Validate(r); err != nil {
		return nil, huma.Error422UnprocessableEntity(err.Error())
	}
	if texts := slices.Concat(sel.IDs, sel.Groups, sel.Sinks, []string{sel.Sink, sel.Table, sel.Type, sel.Topic, sel.Tenant, sel.Search, sel.Reason, why}, editTexts(sel.Edit)); slices.ContainsFunc(texts, unwritable) {
		return nil, errUnwritable()
	}
	a := &askedAnswer{Status: http.StatusAccepted}
	if !dry {
		err := s.askIn(ctx, s.verbs, queryTime, func(ctx context.Context) (err error) {
			a.Body.Request, err = s.operator.AskFor(ctx, r, who(ctx).Name)
			return err
		})
		s.statuses.refresh(time.Now())
		return a, err
	}
	err := s.ask(ctx, func(ctx context.Context) error {
		limit := dryRunLimit
		if sel.Limit > 0 {
			limit = min(limit, sel.Limit)
		}
		found, more, err := s.operator.Parked(ctx, sel, limit)
		a.Status, a.Body.Deliveries, a.Body.More = http.StatusOK, view.OfDeliveries(found), more
		return err
	})
	return a, err
}
