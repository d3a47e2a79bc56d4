package batches

import (
	"slices"
	"time"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/arena"
)

// A batch ends anywhere at its limits, and at the end of a transaction once it has enough of either.
const (
	MaxMessages    = 1024
	MaxBytes       = 256 << 10
	enoughMessages = MaxMessages * 7 / 8
	enoughBytes    = MaxBytes * 7 / 8
)

// largeMessage bytes and more are freed with their message, however long its neighbours are kept.
const largeMessage = 64 << 10

// Progress without messages is emitted at most once in ProgressTime, or when it is ProgressBytes of log.
const (
	ProgressTime  = time.Second
	ProgressBytes = 16 << 20
)

// A Filler holds the messages and marks of the next batch. The zero Filler is empty.
type Filler struct {
	messages []*outbox.Message
	marks    []source.Mark
	bytes    int
}

// Len returns the number of messages.
func (f *Filler) Len() int { return len(f.messages) }

// Add adds a message that takes so many bytes. The filler takes the message over: a large one moves.
func (f *Filler) Add(m *outbox.Message, bytes int) {
	if bytes >= largeMessage {
		m = arena.Alone(m)
	}
	f.messages = append(f.messages, m)
	f.bytes += bytes
}

// Fits reports whether a message of so many bytes keeps the batch within its bytes, or is the first one.
func (f *Filler) Fits(bytes int) bool { return f.bytes == 0 || f.bytes+bytes <= MaxBytes }

// Full reports whether the batch has to be emitted.
func (f *Filler) Full() bool { return len(f.messages) >= MaxMessages || f.bytes >= MaxBytes }

// Enough reports whether the batch is to be emitted if a transaction ends here.
func (f *Filler) Enough() bool { return len(f.messages) >= enoughMessages || f.bytes >= enoughBytes }

// Mark notes that reading can resume from r once all messages so far are settled.
func (f *Filler) Mark(r source.Resume) {
	if k := len(f.marks); k > 0 && f.marks[k-1].N == len(f.messages) {
		f.marks = f.marks[:k-1]
	}
	f.marks = append(f.marks, source.Mark{N: len(f.messages), Resume: r})
}

// Unmarked returns the number of messages behind the last mark.
func (f *Filler) Unmarked() int {
	if k := len(f.marks); k > 0 {
		return len(f.messages) - f.marks[k-1].N
	}
	return len(f.messages)
}

// Cut takes all messages but the first n out again, because their transaction was rolled back. No mark may stand behind them.
func (f *Filler) Cut(n int) {
	if n < len(f.messages) {
		clear(f.messages[n:])
		f.messages = f.messages[:n]
	}
}

// Take returns a batch of the first n messages and all marks, and keeps the other messages. Lists are made in a.
func (f *Filler) Take(a *arena.Arena, n int) *source.Batch {
	b := &source.Batch{}
	if n == 0 {
		return b
	}
	if f.bytes < largeMessage {
		b.Messages = a.List(f.messages[:n])
	} else {
		b.Messages = slices.Clone(f.messages[:n]) // the arena's list would keep them as long as later ones
	}
	b.Marks = append(b.Marks, f.marks...)
	clear(f.marks)
	rest := copy(f.messages, f.messages[n:])
	clear(f.messages[rest:]) // the list was copied; what is emitted is not kept alive from here
	f.messages, f.marks, f.bytes = f.messages[:rest], f.marks[:0], 0
	return b
}
