package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tailbox/tailbox/internal/tail"
)

// quietFor is how long a stream may be silent: a relay gives a sign every 15 s.
const quietFor = 45 * time.Second

// mostEvent bounds one event, of which a payload takes 2 KiB at most.
const mostEvent = 1 << 20

// ErrEnded means that a stream ended although the relay did not refuse it: it stopped, or dropped a client that was too slow.
var ErrEnded = errors.New("the stream has ended")

// Tail calls each with the deliveries that pass the filters, as they happen, until ctx ends, each fails, or the stream ends. begun is called once the relay has
// answered.
func (c *Client) Tail(ctx context.Context, filters url.Values, begun func(), each func(*tail.Attempt, json.RawMessage) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietFor, func() { cancel(fmt.Errorf("%w: nothing came for %v", ErrEnded, quietFor)) })
	defer quiet.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+prefix+"/tail?"+filters.Encode(), nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.Address(), err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	endless := *c.http
	endless.Timeout = 0
	answer, err := endless.Do(r)
	if err != nil {
		return c.ended(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, mostEvent)) // what there is of it says why
		refused := c.problem(answer, text)
		if p, ok := errors.AsType[*Problem](refused); ok && p.Passes() && !p.ByRelay {
			return fmt.Errorf("%w: %w", ErrEnded, refused) // a proxy says that the relay is away
		}
		return refused
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		return c.errStranger()
	}
	begun()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, mostEvent)
	for lines.Scan() {
		quiet.Reset(quietFor)
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var one tail.Attempt
		if err := json.Unmarshal(data, &one); err != nil {
			return c.errStranger()
		}
		if err := each(&one, data); err != nil {
			return err
		}
	}
	return c.ended(ctx, lines.Err())
}

// ended is why a stream ended.
func (c *Client) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		return ErrEnded
	}
	return fmt.Errorf("%w: %w", ErrEnded, c.unreachable(ctx, err))
}
