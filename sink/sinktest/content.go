package sinktest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
)

func testLimits(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	l := p.Sink.Limits()
	if l.Batch < 0 || l.Bytes < 0 || l.Concurrency < 0 || l.PerDestination < 0 || l.Run < 0 {
		t.Errorf("limits below 0: %+v", l)
	}
	if l.Batch > 0 && l.Run > l.Batch {
		t.Errorf("Run %d is more than Batch %d", l.Run, l.Batch)
	}
	if again := p.Sink.Limits(); again != l {
		t.Errorf("limits changed: %+v, then %+v", l, again)
	}
	if destinations, ok := p.Sink.(sink.Destinations); ok {
		d := delivery(p, "limits", 0)
		if failed := Send(t.Context(), t, p.Sink, []*sink.Delivery{d}); len(failed) > 0 {
			t.Fatalf("deliver: %v", failed[d])
		}
		first := destinations.Destination(d)
		if first.Name == "" || first.Partition < 0 {
			t.Errorf("destination after a delivery: %+v", first)
		}
		if again := destinations.Destination(d); again != first {
			t.Errorf("one delivery has two destinations: %+v, then %+v", first, again)
		}
	}
	if answers := p.Sink.Deliver(t.Context(), nil); len(answers) > 0 {
		t.Errorf("no deliveries were answered with %v", answers)
	}
	if checker, ok := p.Sink.(sink.Checker); ok {
		for _, err := range checker.Check(t.Context()) {
			t.Errorf("check of a sink that works: %v", err)
		}
	}
}

// testContent delivers what is hard to carry.
func testContent(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	var ds []*sink.Delivery
	add := func(change func(*sink.Delivery)) {
		d := delivery(p, "content", len(ds))
		change(d)
		ds = append(ds, d)
	}
	add(func(*sink.Delivery) {})
	add(func(d *sink.Delivery) { d.Value = []byte{} })
	add(func(d *sink.Delivery) { d.Value = nil })
	add(func(d *sink.Delivery) { d.Value = everyByte })
	add(func(d *sink.Delivery) { d.Value = []byte("text, not JSON: \"é\" \\ \u2028\n\ttwo lines\r\n") })
	add(func(d *sink.Delivery) { d.Value = []byte("{\"é\": \"\\u00e9\\n\", \"number\":  1.50e+3}") })
	add(func(d *sink.Delivery) { d.Key = nil })
	add(func(d *sink.Delivery) { d.Key = []byte{} })
	add(func(d *sink.Delivery) { d.Key = everyByte })
	add(func(d *sink.Delivery) {
		d.Headers = []outbox.Header{{Name: "placed", Value: []byte("by the router")}}
		d.Message.Headers = []outbox.Header{{Name: "trace-id", Value: []byte("4bf92f")}, {Name: "x-zulu", Value: []byte("1")},
			{Name: "x-alpha", Value: []byte("2")}, {Name: "x-empty", Value: []byte{}}}
	})
	add(func(d *sink.Delivery) {
		d.Message.Headers = []outbox.Header{{Name: "repeated", Value: []byte("1")}, {Name: "repeated", Value: []byte("2")}}
	})
	add(func(d *sink.Delivery) { d.Message.Headers = []outbox.Header{{Name: "accent", Value: []byte("é")}} })
	add(func(d *sink.Delivery) { d.Attempt = 1 << 30 })
	add(func(d *sink.Delivery) { d.Message.Type = "" })
	add(func(d *sink.Delivery) { d.Message.Type = "Type with spaces, commas: 100%" })
	add(func(d *sink.Delivery) { d.Message.ID = "id with spaces, commas: \"100%\" é" })
	add(func(d *sink.Delivery) { d.Message.CommitTime = time.Now() })
	add(func(d *sink.Delivery) { d.Message.Group = "group with spaces, commas: 100% é\n" })
	add(func(d *sink.Delivery) { d.Message.Group = "" })
	deliverAll(t, p, ds)
	compare(t, h, p, ds)
}

func testBig(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	var ds []*sink.Delivery
	for i, size := range []int{10, h.Big, 100, h.Big / 2, h.Big / 2, h.Big / 2} {
		d := delivery(p, "big", i)
		// It cannot be compressed.
		value := make([]byte, 0, size+sha256.Size)
		for n := uint64(0); len(value) < size; n++ {
			sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))
			value = append(value, sum[:]...)
		}
		d.Value = value[:size]
		ds = append(ds, d)
	}
	deliverAll(t, p, ds)
	compare(t, h, p, ds)
}

// testNothingKept overwrites what belonged to the deliveries as soon as Deliver has returned.
func testNothingKept(t *testing.T, h Harness) {
	p := h.New(t)
	defer closeSink(t, p.Sink)
	var wanted []*sink.Delivery
	for i := range 50 {
		d := delivery(p, "kept", i)
		d.Value = fmt.Appendf(nil, `{"n":%d,"fill":%q}`, i, strings.Repeat("x", 1000))
		d.Message.Headers = []outbox.Header{{Name: "n", Value: fmt.Append(nil, i)}}
		kept := *d
		kept.Value = bytes.Clone(d.Value)
		kept.Key = bytes.Clone(d.Key)
		message := *d.Message
		message.Headers = []outbox.Header{{Name: "n", Value: bytes.Clone(d.Message.Headers[0].Value)}}
		kept.Message = &message
		wanted = append(wanted, &kept)
		deliverAll(t, p, []*sink.Delivery{d})
		for _, b := range [][]byte{d.Value, d.Key, d.Message.Headers[0].Value} {
			for i := range b {
				b[i] = '!'
			}
		}
	}
	compare(t, h, p, wanted)
}

func deliverAll(t *testing.T, p Place, ds []*sink.Delivery) {
	t.Helper()
	failed := Send(t.Context(), t, p.Sink, ds)
	for _, d := range ds {
		if err := failed[d]; err != nil {
			t.Errorf("deliver %s: %v", d.Message.ID, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// compare waits until all of ds have arrived, and compares each, and their order within groups.
func compare(t *testing.T, h Harness, p Place, ds []*sink.Delivery) {
	t.Helper()
	if h.Blind {
		return
	}
	arrived := await(t, p, ds)
	for _, d := range ds {
		want := h.want(d)
		got := arrived[d.Message.ID]
		switch {
		case reflect.DeepEqual(want, got):
		case len(want.Value) > 10_000:
			t.Errorf("%s: %d bytes arrived as %d other ones", d.Message.ID, len(want.Value), len(got.Value))
		default:
			t.Errorf("%s: want (-), got (+):\n%s", d.Message.ID, cmp.Diff(want, got))
		}
	}
}

// await waits until all of ds have arrived, and returns the first arrival of each id.
func await(t *testing.T, p Place, ds []*sink.Delivery) map[string]Arrival {
	t.Helper()
	var arrived map[string]Arrival
	Eventually(t, "all deliveries arrive", func() bool {
		arrived = make(map[string]Arrival)
		for _, a := range p.Arrived(t) {
			if _, ok := arrived[a.ID]; !ok {
				arrived[a.ID] = a
			}
		}
		for _, d := range ds {
			if _, ok := arrived[d.Message.ID]; !ok {
				return false
			}
		}
		return true
	})
	return arrived
}
