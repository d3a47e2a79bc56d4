package relay

import (
	"bytes"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/relay/memory"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/source"
)

// TestMadeValuesCount: what the router makes of a payload takes memory as the payload does, and is given back with it.
func TestMadeValuesCount(t *testing.T) {
	t.Parallel()
	const size = 100_000
	for value, want := range map[string]int64{"json": 7 * size, "simplestring": size} { // \u0001 has six bytes
		shape, _ := outbox.ShapeNamed("debezium")
		r, err := router.New(router.Config{Tables: []outbox.Table{shape.Table("outbox")}, Sinks: []string{"out"}, Options: router.Options{"format.value": value}})
		if err != nil {
			t.Fatal(err)
		}
		in := intake{memory: memory.New(1 << 20), received: make(chan *received, 1), cfg: &Config{Router: r}}
		m := &outbox.Message{ID: "1", Type: "T", Topic: "order", Table: "outbox", Payload: bytes.Repeat([]byte{1}, size)}
		if err := in.emit(t.Context(), &source.Batch{Messages: []*outbox.Message{m}}); err != nil {
			t.Fatal(err)
		}
		got := <-in.received
		if used := in.memory.InUse(); used < want || used > want+2000 || got.items[0].err != nil {
			t.Errorf("format.value %s: %d bytes are taken, want about %d; %v", value, used, want, got.items[0].err)
		}
		got.items[0].msg.Batch.Done(in.memory)
		if used := in.memory.InUse(); used != 0 {
			t.Errorf("%d bytes stay taken", used)
		}
	}
}
