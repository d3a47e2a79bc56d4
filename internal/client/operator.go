package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/operate"
	"github.com/tailbox/tailbox/source/store/report"
	"github.com/tailbox/tailbox/source/store/view"
)

// pageSize is how much a relay lists at once, at most.
const pageSize = 500

// pollEvery is how often a request is looked at until it is carried out.
const pollEvery = 300 * time.Millisecond

// errDatabase begins the errors of what the API does not offer.
var errDatabase = errors.New("the relay's API does not offer it: use the configuration, with -c")

// filters is the query that a selection stands for.
func filters(sel *checkpoint.Selection) (url.Values, error) {
	if len(sel.IDs) > pageSize {
		return nil, fmt.Errorf("%d IDs are too many for one question to a relay: name at most %d", len(sel.IDs), pageSize)
	}
	q := url.Values{}
	for name, value := range map[string]string{"sink": sel.Sink, "table": sel.Table, "type": sel.Type, "topic": sel.Topic, "tenant": sel.Tenant, "q": sel.Search,
		"reason": sel.Reason} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, state := range sel.States {
		q.Add("state", string(state))
	}
	if len(sel.IDs) > 0 {
		q["id"] = sel.IDs
	}
	if len(sel.Groups) > 0 {
		q["group"] = sel.Groups
	}
	if sel.Unrouted {
		q.Set("unrouted", "true")
	}
	return q, nil
}

// deliveries lists what a query asks for, page by page: at most limit that pass, 0 = all. more tells whether some are left out. A nil passes lets all pass.
func (c *Client) deliveries(ctx context.Context, q url.Values, limit int, passes func(*store.Listed) bool) (found []store.Listed, more bool, err error) {
	q.Set("limit", strconv.Itoa(pageSize))
	if limit > 0 && limit < pageSize && passes == nil {
		q.Set("limit", strconv.Itoa(limit+1))
	}
	for {
		var page struct {
			Deliveries []view.Delivery
			Next       string
		}
		if err := c.get(ctx, "/deliveries", q, &page); err != nil {
			return nil, false, err
		}
		for i := range page.Deliveries {
			one, err := page.Deliveries[i].Listed()
			if err != nil {
				return nil, false, fmt.Errorf("ask %s: %w", c.Address(), err)
			}
			if passes != nil && !passes(&one) {
				continue
			}
			if limit > 0 && len(found) == limit {
				return found, true, nil
			}
			found = append(found, one)
		}
		if page.Next == "" {
			return found, false, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Parked is operate.Operator's.
func (c *Client) Parked(ctx context.Context, sel checkpoint.Selection, limit int) (list []store.Listed, more bool, err error) {
	q, err := filters(&sel)
	if err != nil {
		return nil, false, err
	}
	bounded := sel.Limit > 0 && (limit == 0 || sel.Limit <= limit)
	if bounded {
		limit = sel.Limit
	}
	list, more, err = c.deliveries(ctx, q, limit, nil)
	return list, more && !bounded, err
}

// ParkedSince is operate.Operator's.
func (c *Client) ParkedSince(ctx context.Context, sel checkpoint.Selection, since time.Time, limit int) ([]store.Listed, bool, error) {
	q, err := filters(&sel)
	if err != nil {
		return nil, false, err
	}
	return c.deliveries(ctx, q, limit, func(l *store.Listed) bool { return !l.ParkedAt.Before(since) })
}

// AllNewest is operate.Operator's.
func (c *Client) AllNewest(ctx context.Context, sel checkpoint.Selection, during operate.Span, limit int) ([]store.Listed, bool, error) {
	q, err := filters(&sel)
	if err != nil {
		return nil, false, err
	}
	q.Set("order", "newest")
	for name, at := range map[string]time.Time{"since": during.Since, "until": during.Until} {
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return c.deliveries(ctx, q, limit, nil)
}

// Whole is operate.Operator's. It asks for one message after the other.
func (c *Client) Whole(ctx context.Context, sel checkpoint.Selection) (list []store.Listed, more bool, err error) {
	for _, id := range sel.IDs {
		q := url.Values{"id": {id}}
		if sel.Sink != "" {
			q.Set("sink", sel.Sink)
		}
		if sel.Table != "" {
			q.Set("table", sel.Table)
		}
		var answer struct {
			Deliveries []view.Message
			More       bool
		}
		if err := c.get(ctx, "/delivery", q, &answer); err != nil {
			if p, ok := errors.AsType[*Problem](err); ok && p.Missing() {
				continue // the caller tells which are missing
			}
			return nil, false, err
		}
		for i := range answer.Deliveries {
			one, err := answer.Deliveries[i].Listed()
			if err != nil {
				return nil, false, fmt.Errorf("ask %s: %w", c.Address(), err)
			}
			if !sel.Unrouted || one.Sink == "" {
				list = append(list, one)
			}
		}
		more = more || answer.More
	}
	return list, more, nil
}

// Lanes is operate.Operator's, page by page.
func (c *Client) Lanes(ctx context.Context, sel checkpoint.Selection, after checkpoint.Lane, limit int) (lanes []operate.WaitingLane, next *checkpoint.Lane, err error) {
	if sel.Unrouted {
		return nil, nil, fmt.Errorf("groups of the sink '': %w", errDatabase)
	}
	q, err := filters(&checkpoint.Selection{Sink: sel.Sink, Groups: sel.Groups})
	if err != nil {
		return nil, nil, err
	}
	parked := 0
	for {
		q.Set("limit", strconv.Itoa(pageSize))
		if limit > 0 {
			q.Set("limit", strconv.Itoa(min(pageSize, limit-parked)))
		}
		var page struct {
			Groups []view.Group
			Next   string
		}
		if err := c.get(ctx, "/groups", q, &page); err != nil {
			return nil, nil, err
		}
		for i := range page.Groups {
			g := &page.Groups[i]
			lane := operate.WaitingLane{Sink: g.Sink, Group: g.Group, Held: g.Held, Everywhere: g.Everywhere, Deliveries: g.Deliveries}
			if g.First != nil {
				first, err := g.First.Listed()
				if err != nil {
					return nil, nil, fmt.Errorf("ask %s: %w", c.Address(), err)
				}
				lane.First = &first
				parked++
			}
			lanes = append(lanes, lane)
		}
		switch {
		case page.Next == "":
			return lanes, nil, nil
		case limit > 0 && parked >= limit:
			last := lanes[len(lanes)-1]
			return lanes, &checkpoint.Lane{Sink: last.Sink, Group: last.Group}, nil
		}
		q.Set("cursor", page.Next)
	}
}

// Summarize is operate.Operator's.
func (c *Client) Summarize(ctx context.Context, states []checkpoint.State, by []operate.Cause) (*operate.Summary, error) {
	q := url.Values{}
	names := make([]string, len(by))
	for i, cause := range by {
		names[i] = string(cause)
	}
	q.Set("by", strings.Join(names, ","))
	for _, state := range states {
		q.Add("state", string(state))
	}
	var answer struct {
		Failures []view.Failure
		Partial  bool
	}
	if err := c.get(ctx, "/deliveries/summary", q, &answer); err != nil {
		return nil, err
	}
	found := &operate.Summary{Partial: answer.Partial}
	for i := range answer.Failures {
		f, err := answer.Failures[i].Failure()
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", c.Address(), err)
		}
		found.Failures = append(found.Failures, f)
	}
	return found, nil
}

// Asked is operate.Operator's. With whole it returns the request before the given number alone.
func (c *Client) Asked(ctx context.Context, before int64, limit int, whole bool) (list []store.Asked, err error) {
	if whole {
		var one view.Asked
		err := c.get(ctx, fmt.Sprintf("/requests/%d", before-1), nil, &one)
		if p, ok := errors.AsType[*Problem](err); ok && p.Missing() {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []store.Asked{one.Asked()}, nil
	}
	q := url.Values{}
	if before > 0 {
		q.Set("cursor", strconv.FormatInt(before, 10))
	}
	for len(list) < limit {
		q.Set("limit", strconv.Itoa(min(pageSize, limit-len(list))))
		var page struct {
			Requests []view.Asked
			Next     string
		}
		if err := c.get(ctx, "/requests", q, &page); err != nil {
			return nil, err
		}
		for i := range page.Requests {
			list = append(list, page.Requests[i].Asked())
		}
		if page.Next == "" {
			break
		}
		q.Set("cursor", page.Next)
	}
	return list, nil
}

// Result is operate.Operator's.
func (c *Client) Result(ctx context.Context, id int64) (*store.RequestResult, bool, error) {
	var v view.Asked
	if err := c.get(ctx, fmt.Sprintf("/requests/%d", id), nil, &v); err != nil {
		return nil, false, err
	}
	a := v.Asked()
	return &a.Result, v.DoneAt != nil, nil
}

// awayFor is how long a relay that does not answer is asked again what became of a request.
const awayFor = 2 * time.Minute

// Wait waits until a relay has carried a request out. A relay that is away for a while is asked again.
func (c *Client) Wait(ctx context.Context, id int64) (*store.RequestResult, error) {
	for answered := time.Now(); ; {
		result, done, err := c.Result(ctx, id)
		p, refused := errors.AsType[*Problem](err)
		switch {
		case err == nil && done:
			return result, nil
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil, refused && !p.Passes(), time.Since(answered) > awayFor:
			return nil, fmt.Errorf("wait for request %d: %w: the relay carries it out all the same: see tailbox audit %d", id, err, id)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// Status returns the status of the pipeline, and what the command status prints as JSON.
func (c *Client) Status(ctx context.Context) (*report.Status, error) {
	var answer struct {
		Running       bool
		Relay, Source string
		Log           []struct{ Name, Text string }
		Status        json.RawMessage
	}
	if err := c.get(ctx, "/pipeline", nil, &answer); err != nil {
		return nil, err
	}
	var of report.Report
	var whole any
	if err := errors.Join(json.Unmarshal(answer.Status, &of), json.Unmarshal(answer.Status, &whole)); err != nil {
		return nil, fmt.Errorf("ask %s: its status cannot be read: it is a relay of another version: %w", c.Address(), err)
	}
	s := report.NewStatus(&of, whole)
	s.Running, s.Relay, s.Source = answer.Running, answer.Relay, answer.Source
	for _, l := range answer.Log {
		s.Log = append(s.Log, []string{l.Name, l.Text})
	}
	return s, nil
}

// Sinks lists the sinks of the relay's configuration.
func (c *Client) Sinks(ctx context.Context) (names []string, err error) {
	var answer struct{ Sinks []report.SinkCount }
	err = c.get(ctx, "/sinks", nil, &answer)
	for i := range answer.Sinks {
		if answer.Sinks[i].Kind != "" {
			names = append(names, answer.Sinks[i].Sink)
		}
	}
	return names, err
}

// Configuration returns the relay's configuration as YAML, with secrets masked.
func (c *Client) Configuration(ctx context.Context) (string, error) {
	var answer struct{ YAML string }
	err := c.get(ctx, "/config", nil, &answer)
	return answer.YAML, err
}

// Ask writes a request in the name of the token, and returns its id.
func (c *Client) Ask(ctx context.Context, r *checkpoint.Request) (int64, error) {
	path, body, err := operation(r)
	if err != nil {
		return 0, err
	}
	var answer struct{ Request int64 }
	err = c.post(ctx, path, body, &answer)
	if p, refused := errors.AsType[*Problem](err); err != nil && !(refused && p.ByRelay) {
		return 0, fmt.Errorf("%w: perhaps the request is written all the same: see tailbox audit", err)
	}
	return answer.Request, err
}

// operation is the operation of the API that writes a request, and its body.
func operation(r *checkpoint.Request) (path string, body any, err error) {
	sel := &r.Selection
	fields := map[string]any{}
	set := func(name string, value any, is bool) {
		if is {
			fields[name] = value
		}
	}
	set("sink", sel.Sink, sel.Sink != "")
	set("table", sel.Table, sel.Table != "")
	set("why", r.Reason, r.Reason != "")
	set("allow_reorder", true, sel.AllowReorder)
	switch r.Verb {
	case checkpoint.VerbEdit:
		e := sel.Edit
		fields["id"] = sel.IDs[0]
		set("type", e.Type, e.Type != nil)
		set("topic", e.Topic, e.Topic != nil)
		set("key", e.Key, e.Key != nil)
		set("headers", e.Headers, len(e.Headers) > 0)
		set("new_id", e.NewID, e.NewID != "")
		if e.Payload != nil {
			fields["payload_base64"] = base64.StdEncoding.EncodeToString(*e.Payload)
		}
		if sel.Unrouted {
			return "", nil, fmt.Errorf("an edit at the sink '': %w", errDatabase)
		}
		return "/deliveries:edit", fields, nil
	case checkpoint.VerbReplay, checkpoint.VerbDrop:
		set("ids", sel.IDs, len(sel.IDs) > 0)
		set("groups", sel.Groups, len(sel.Groups) > 0)
		set("type", sel.Type, sel.Type != "")
		set("topic", sel.Topic, sel.Topic != "")
		set("tenant", sel.Tenant, sel.Tenant != "")
		set("q", sel.Search, sel.Search != "")
		set("reason", sel.Reason, sel.Reason != "")
		set("states", sel.States, len(sel.States) > 0)
		set("limit", sel.Limit, sel.Limit > 0)
		set("all", true, sel.All)
		set("unrouted", true, sel.Unrouted)
		return "/deliveries:" + string(r.Verb), fields, nil
	case checkpoint.VerbPause, checkpoint.VerbResume:
		if len(sel.Sinks) == 1 {
			return "/sinks/" + url.PathEscape(sel.Sinks[0]) + ":" + string(r.Verb), fields, nil
		}
		if len(sel.Sinks) > 1 {
			return "", nil, errors.New("a relay's API pauses and resumes one sink at a time: name one")
		}
	case checkpoint.VerbHold, checkpoint.VerbSkip:
	default:
		return "", nil, fmt.Errorf("%s: %w", r.Verb, errDatabase)
	}
	if len(sel.States) > 0 || sel.Unrouted {
		return "", nil, fmt.Errorf("group %s of a delivery that is retried, or at the sink '': %w", r.Verb, errDatabase)
	}
	fields["groups"] = sel.Groups
	return "/groups:" + string(r.Verb), fields, nil
}
