package mongo

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	// partBytes is how many bytes of events are handed over at once.
	partBytes = 256 << 10
	// partsAhead is how many parts may wait to be taken: as a rule an answer's, so that the server works at the next answer while all
	// of this one is decoded and emitted.
	partsAhead = 8
)

// A feed asks the server for events while those that came before are decoded and emitted: the server takes longer for an answer
// than that takes.
type feed struct {
	changes *mongo.ChangeStream // its goroutine's, until that has ended
	parts   chan part
	stop    context.CancelFunc
	ended   chan struct{}
}

// A part is some events of one answer of the server. They are valid until the next part is taken.
type part struct {
	events []bson.Raw
	// last is the end of the answer, and token is then the place behind it; nil where none is known yet.
	last  bool
	token bson.Raw
	// err is why there is no answer. Over: the server has ended the change stream. The feed has ended then.
	err  error
	over bool
}

// newFeed begins to ask.
func newFeed(ctx context.Context, changes *mongo.ChangeStream) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{changes: changes, parts: make(chan part, partsAhead), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		f.run(ctx)
	}()
	return f
}

// next waits for the next part. After one with err or over there is none.
func (f *feed) next(ctx context.Context) (part, error) {
	select {
	case p := <-f.parts:
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
	for n := 0; ; n = (n + 1) % len(bufs) {
		p := f.gather(ctx, &bufs[n], &events[n])
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
	if cap(b) <= 2*partBytes { // a large event's is not kept
		*buf, *events = b, list
	} else {
		*buf = nil
	}
	return p
}
