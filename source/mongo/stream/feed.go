package stream

import (
	"context"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	// partBytes is how many bytes of events are handed over at once.
	partBytes = 256 << 10
	// partsAhead is how many parts may wait to be taken: as a rule an answer's, so that the server works at the next answer while all
	// of this one is decoded and emitted.
	partsAhead = 8
	// feedBytes is from where on nothing more is gathered until what was is taken. A part has one large event, of 16 MiB, at most
	// beyond partBytes, so a feed holds less than feedBytes + partBytes + 16 MiB, and the driver the rest of one answer, of 16 MiB.
	feedBytes = 4 << 20
)

// A feed asks the server for events while those that came before are decoded and emitted: the server takes longer for an answer
// than that takes.
type feed struct {
	changes *mongo.ChangeStream // its goroutine's, until that has ended
	parts   chan part
	stop    context.CancelFunc
	ended   chan struct{}
	// held are the bytes of all parts that were gathered and are not done with. Room says that they have become fewer. Waits counts
	// how often there was none.
	held  atomic.Int64
	room  chan struct{}
	waits atomic.Int64
	// inHand are the bytes of the part that was taken last: its reader's.
	inHand int64
}

// A part is some events of one answer of the server. They are valid until the next part is taken.
type part struct {
	events []bson.Raw
	// last is the end of the answer, and token is then the place behind it; nil if none is known yet.
	last  bool
	token bson.Raw
	// bytes is what it holds in memory.
	bytes int64
	// err is why there is no answer. Over: the server has ended the change stream. The feed has ended then.
	err  error
	over bool
}

// newFeed begins to ask.
func newFeed(ctx context.Context, changes *mongo.ChangeStream) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{changes: changes, parts: make(chan part, partsAhead), stop: stop, ended: make(chan struct{}), room: make(chan struct{}, 1)}
	go func() {
		defer close(f.ended)
		f.run(ctx)
	}()
	return f
}

// next is done with the part before, and waits for the next one. After one with err or over there is none.
func (f *feed) next(ctx context.Context) (part, error) {
	f.held.Add(-f.inHand)
	f.inHand = 0
	select {
	case f.room <- struct{}{}:
	default: // it was said
	}
	select {
	case p := <-f.parts:
		f.inHand = p.bytes
		return p, nil
	case <-ctx.Done():
		return part{}, ctx.Err()
	}
}

// close ends the feed and its change stream.
func (f *feed) close(ctx context.Context) {
	f.stop()
	<-f.ended
	_ = f.changes.Close(context.WithoutCancel(ctx)) // whatever is left of it goes with its cursor's time
}

func (f *feed) run(ctx context.Context) {
	// One part is filled, some wait, and the one that was taken last is being read.
	var bufs [partsAhead + 2][]byte
	var events [partsAhead + 2][]bson.Raw
	for n := 0; f.wait(ctx); n = (n + 1) % len(bufs) {
		p := f.gather(ctx, &bufs[n], &events[n])
		f.held.Add(p.bytes)
		select {
		case f.parts <- p:
		case <-ctx.Done():
			return
		}
		if p.err != nil || p.over {
			return
		}
	}
}

// wait waits until there is room for a part. It is false at the end of the feed.
func (f *feed) wait(ctx context.Context) bool {
	if f.held.Load() < feedBytes {
		return true
	}
	f.waits.Add(1)
	for f.held.Load() >= feedBytes {
		select {
		case <-f.room:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// gather copies events of the present answer, or asks for the next one. An event is the driver's until it is asked for another.
func (f *feed) gather(ctx context.Context, buf *[]byte, events *[]bson.Raw) (p part) {
	b, list := (*buf)[:0], (*events)[:0]
	for f.changes.TryNext(ctx) {
		start := len(b)
		b = append(b, f.changes.Current...)
		list = append(list, b[start:len(b):len(b)])
		if p.last = f.changes.RemainingBatchLength() == 0; p.last || len(b) >= partBytes {
			break
		}
	}
	if p.events = list; len(list) == 0 {
		p.last, p.err = true, f.changes.Err()
		p.over = p.err == nil && f.changes.ID() == 0
	}
	if p.last {
		p.token = f.changes.ResumeToken()
	}
	p.bytes = int64(cap(b))
	if cap(b) <= 2*partBytes { // a large event's is not kept
		*buf, *events = b, list
	} else {
		*buf = nil
	}
	return p
}
