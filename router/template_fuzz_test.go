package router_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/router"
	"github.com/tailbox/tailbox/sink"
)

// FuzzTemplates: whatever the templates, expressions and placements of a configuration are, they are either a problem that is told, or
// route every message, and the same one alike each time.
func FuzzTemplates(f *testing.F) {
	f.Add(".*", "outbox.event.${routedByValue}", "${type}", "type:header:eventType", "email.*", "order", "T", "eu")
	f.Add("(?<kind>[a-z]+)-?(.*)", "e.${kind}.$2$$", "a.${tenant}.${header.region}", "shard:partition,word:envelope:w", "/^a|b$/", "order-x", "", "")
	f.Add("(", "${", "${header.", "x:y", "/(/", "\x00", "\xff", "\n")
	f.Add("(?<routedByValue>.*)", "${routedByValue}$1\\$", "$${type}", "word:header:,", "[!a]?", "é", "ß", "${type}")
	f.Fuzz(func(t *testing.T, regex, replacement, topic, placement, match, value, typ, region string) {
		routed := table(t, "debezium", "outbox")
		templated := table(t, "debezium", "mails")
		templated.Columns.Topic, templated.Topic = "", topic
		o := router.Options{"route.topic.regex": regex, "route.topic.replacement": replacement, "table.fields.additional.placement": placement}
		r, err := router.New(router.Config{Tables: []outbox.Table{routed, templated}, Sinks: []string{"out", "rest"}, TableOptions: []router.Options{o, nil},
			Routes: []router.RouteConfig{{Match: map[string][]string{"type": {match}, "header.region": {match}}, To: []string{"out"}}, {To: []string{"rest"}}}})
		if err != nil {
			if err.Error() == "" {
				t.Error("a problem without words")
			}
			return
		}
		for _, name := range []string{"public.outbox", "public.mails"} {
			m := invoice()
			m.Table, m.Topic, m.Type, m.Headers[0].Value = name, value, typ, []byte(region)
			var first, second sink.Delivery
			_, err1 := r.Route(m, &first)
			_, err2 := r.Route(m, &second)
			if (err1 == nil) != (err2 == nil) {
				t.Fatalf("routed with %v, and then with %v", err1, err2)
			}
			if diff := cmp.Diff(first.Topic+text(&first), second.Topic+text(&second)); err1 == nil && diff != "" {
				t.Errorf("the second delivery differs (-first +second):\n%s", diff)
			}
		}
	})
}
