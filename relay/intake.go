package relay

import (
	"context"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/lane"
	"github.com/tailbox/tailbox/relay/memory"
	"github.com/tailbox/tailbox/source"
)

// An intake is the part of the relay that the source's goroutine uses. It routes messages, waits for memory, and hands batches to the engine's
// goroutine. After the start only its channels and its memory budget change.
type intake struct {
	cfg      *Config
	memory   *memory.Budget
	received chan *received
	cautions chan caution
	warmed   chan struct{} // closed when the sinks have connected; nil: the start is not in safe mode
}

// caution is a source that asks whether it may decode the next row.
type caution struct {
	at    outbox.Position
	reply chan error
}

// received is a batch of the log after routing, on its way from the source's goroutine to the engine's.
type received struct {
	batch *source.Batch
	found bool // by a reconciliation: not from the log
	items []routed
}

// routed is a message with what the router made of it. The delivery is that for the route's first sink; those for further
// sinks begin as copies of it.
type routed struct {
	msg         lane.Message
	delivery    lane.Delivery
	err         error // the message cannot be routed
	otherTenant bool  // it is another pipeline's: passed over
}

// made returns the size of the value that the router made; 0 if the value is the message's own payload. A JSON envelope is larger than the payload in
// it.
func (r *routed) made() int {
	value, payload := r.delivery.Value, r.msg.Payload
	if len(value) == 0 || len(payload) > 0 && &value[0] == &payload[0] {
		return 0
	}
	return len(value)
}

// emit takes a batch from the source: it routes, waits for memory, and hands over.
func (in *intake) emit(ctx context.Context, b *source.Batch) error {
	rb := &received{batch: b, items: make([]routed, len(b.Messages))}
	mem := &memory.Batch{Left: len(b.Messages)}
	for i, m := range b.Messages {
		in.route(&rb.items[i], m, mem)
		mem.Bytes += int64(m.Size() + rb.items[i].made())
	}
	if mem.Bytes > 0 {
		if err := in.memory.Acquire(ctx, mem.Bytes); err != nil {
			return err
		}
	}
	select {
	case in.received <- rb:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// route asks the router. It changes nothing but r, and is also called by the engine's goroutine, for rows that the log does not hold.
func (in *intake) route(r *routed, m *outbox.Message, mem *memory.Batch) {
	r.delivery.Message = m
	r.delivery.Source = in.cfg.Pipeline
	r.msg = lane.Message{Message: m, Batch: mem, Kept: in.kept(m.Table)}
	if in.cfg.Ours != nil && !in.cfg.Ours(m) {
		r.otherTenant = true
		return
	}
	r.msg.Route, r.err = in.cfg.Router.Route(m, &r.delivery.Delivery)
	r.delivery.Msg, r.delivery.Route = &r.msg, r.msg.Route
	if in.cfg.Receipts != nil && in.cfg.Receipts(m.Table) {
		r.msg.Receipts = &lane.Receipts{}
	}
}

// kept reports whether nothing is to be done about the delivered rows of a table.
func (in *intake) kept(table string) bool { return in.cfg.Kept != nil && in.cfg.Kept(table) }

// ask waits for the permission to decode the next row, in safe mode (R9).
func (in *intake) ask(ctx context.Context, p outbox.Position) error {
	select {
	case <-in.warmed:
	case <-ctx.Done():
		return ctx.Err()
	}
	c := caution{at: p, reply: make(chan error, 1)}
	select {
	case in.cautions <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
