package kafka_test

import (
	"fmt"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/sink"
	"github.com/tailbox/tailbox/sink/kafka"
	"github.com/tailbox/tailbox/test/servers"
)

// A receipt names the partition and the offset, which is where the message is found.
func TestReceipts(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	topic := k.NewTopic(t, 1)
	s := newSink(t, kafka.Config{Brokers: k.Brokers()})
	defer func() { _ = s.Close(t.Context()) }()
	for round := range 2 {
		var ds []*sink.Delivery
		for i := range 3 {
			d := &sink.Delivery{Message: &outbox.Message{ID: fmt.Sprint(round, i)}, Topic: topic, Value: fmt.Appendf(nil, "%d %d", round, i)}
			if i != 1 {
				d.Receipt = &sink.Receipt{}
			}
			ds = append(ds, d)
		}
		for tries := 0; ; tries++ {
			for _, d := range ds {
				d.Destination = s.Destination(d)
			}
			answers := s.Deliver(t.Context(), ds)
			if answers == nil {
				break
			}
			if class, _, _ := sink.Classify(answers[0]); class != sink.ClassNotAttempted || tries == 20 {
				t.Fatal(answers)
			}
		}
		for i, d := range ds {
			want := fmt.Sprintf("partition=0 offset=%d", 3*round+i)
			if i == 1 {
				want = ""
			}
			if got := d.Receipt.Text(); got != want {
				t.Errorf("message %d: got %q, want %q", 3*round+i, got, want)
			}
		}
	}
}
