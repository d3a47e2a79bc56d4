package sink_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/sink"
)

// Names in use have names of their own, however many came before; the number of those that are remembered is bounded.
func TestNames(t *testing.T) {
	t.Parallel()
	n := sink.NewNames("others")
	for i := range 1024 {
		if name := fmt.Sprint("junk ", i); n.Destination(name).Name != name {
			t.Fatalf("%s has no name of its own", name)
		}
	}
	if got := n.Destination("new"); got != (sink.Destination{Name: "others", Shared: true}) {
		t.Errorf("beyond the bound: %+v, want others", got)
	}
	own := 0
	for range 10_000 {
		if n.Destination("orders").Name == "orders" {
			own++
		}
		n.Destination("junk 0")
	}
	if own < 5000 {
		t.Errorf("a name in use had itself %d times in 10,000", own)
	}
	if got := n.Destination("junk 0").Name; got != "junk 0" {
		t.Errorf("the other name in use became %q", got)
	}
	if long := strings.Repeat("x", 5000); !sink.NewNames("others").Destination(long).Shared {
		t.Error("a name of 5,000 bytes is remembered")
	}
}

// fourAtMost is the rule of a sink.
type fourAtMost struct{}

func (fourAtMost) CheckTopic(topic string) error {
	if len(topic) > 4 {
		return errors.New("four bytes at most")
	}
	return nil
}

func TestCheckTopic(t *testing.T) {
	t.Parallel()
	own, none := sink.Limits{Topic: fourAtMost{}}, sink.Limits{}
	for _, test := range []struct {
		limits *sink.Limits
		topic  string
		says   string
	}{
		{&own, "", ""}, {&own, "four", ""}, {&own, "fives", `"fives": four bytes at most`},
		{&none, "", ""}, {&none, strings.Repeat("t", 1024), ""}, {&none, strings.Repeat("t", 1025), "1024 bytes"},
		{&none, strings.Repeat("t", 1<<20), "(1048576 bytes)"},
	} {
		err := test.limits.CheckTopic(test.topic)
		if !says(err, test.says) {
			t.Errorf("%.20q: %v, want %q", test.topic, err, test.says)
		}
		if err == nil {
			continue
		}
		if class, _, _ := sink.Classify(err); class != sink.ClassPermanent || len(err.Error()) > 400 || !strings.Contains(err.Error(), "topic's column") {
			t.Errorf("%v: %v", class, err)
		}
	}
}
