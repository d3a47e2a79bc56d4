package arena

import (
	"encoding/binary"
	"strings"
	"testing"
	"unsafe"

	"github.com/tailbox/tailbox/outbox"
)

// What was handed out stays as it is, whatever is asked for afterwards, and cannot be grown into what follows.
func TestHandsOutMemoryOnce(t *testing.T) {
	t.Parallel()
	var a Arena
	type piece struct {
		got  []byte
		want string
	}
	var pieces []piece
	for i := range 3 * chunkSize / 100 {
		want := strings.Repeat(string(rune('a'+i%26)), i%200)
		pieces = append(pieces, piece{a.CopyOf([]byte(want)), want})
		_ = append(pieces[i].got, "more"...)
	}
	large := a.Alloc(ownChunk)
	if len(large) != ownChunk || unsafe.SliceData(large) == unsafe.SliceData(a.chunk) {
		t.Errorf("a large value has %d bytes", len(large))
	}
	for i, p := range pieces {
		if p.got == nil || string(p.got) != p.want || cap(p.got) != len(p.got) {
			t.Fatalf("piece %d: got %q (capacity %d), want %q", i, p.got, cap(p.got), p.want)
		}
	}
	seen := make(map[*outbox.Message]bool)
	for range 3 * slabSize {
		seen[a.NewMessage()] = true
	}
	if len(seen) != 3*slabSize {
		t.Errorf("%d different messages of %d", len(seen), 3*slabSize)
	}
	for _, n := range []int{0, 1, 100, 127, 128, 1000} {
		ms := make([]*outbox.Message, n)
		for i := range ms {
			ms[i] = a.NewMessage()
		}
		l := a.List(ms)
		first := append([]*outbox.Message(nil), ms...)
		clear(ms)
		for i := range l {
			if l[i] != first[i] {
				t.Fatalf("list of %d: message %d is another", n, i)
			}
		}
	}
	for _, size := range []int{0, 1, ownChunk, mostScratch, mostScratch + 1} {
		for _, room := range []int{0, size + 1} {
			scratch := append(make([]byte, 0, size+room), strings.Repeat("a", size)...)
			text, rest := a.Keep(scratch)
			large := size+room > mostScratch
			if large != (rest == nil) {
				t.Errorf("%d bytes in %d: the scratch is kept: %v", size, size+room, rest != nil)
			}
			_ = append(text, "more"...)
			clear(rest[:min(size, cap(rest))])
			if string(text) != strings.Repeat("a", size) || text == nil || len(text) == mostScratch+1 && cap(text) >= 2*size {
				t.Errorf("%d bytes in %d: got %d with room for %d", size, size+room, len(text), cap(text))
			}
		}
	}
	hs := a.HeaderList([]outbox.Header{{Name: "a"}, {Name: "b"}})
	fs := a.FieldList(2)
	fs[0].Name, fs[1].Name = "x", "y"
	_, _ = a.HeaderList([]outbox.Header{{Name: "c"}}), a.FieldList(100)
	if hs[0].Name != "a" || hs[1].Name != "b" || fs[0].Name != "x" || fs[1].Name != "y" || a.HeaderList(nil) != nil {
		t.Errorf("headers %v, fields %v", hs, fs)
	}
}

func TestIntern(t *testing.T) {
	t.Parallel()
	var a Arena
	b := []byte("text")
	s := a.Intern(b)
	b[0] = 'n'
	if s != "text" || a.Intern([]byte("text")) != s || a.Intern(b) != "next" || len(a.interned) != 2 {
		t.Errorf("got %q, %d interned", s, len(a.interned))
	}
	for i := range internMax * 2 {
		a.Intern(binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	a.Intern([]byte(strings.Repeat("x", internLen+1)))
	if len(a.interned) != internMax {
		t.Errorf("%d interned", len(a.interned))
	}
}
