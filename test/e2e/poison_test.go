//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailbox/tailbox/test/servers"
)

const poisonGroup = 10_000 // messages of the group whose head is poison

// poisonedTopic is a relay to Kafka with a group whose first message is larger than the topic allows, under a load of
// other groups.
type poisonedTopic struct {
	*Bed
	topic  *Topic
	truth  *Truth
	load   *Load
	relay  *Relay
	ids    []int64 // of the group; the first is poison
	broker *servers.KafkaServer
}

func newPoisonedTopic(t *testing.T, policy string) *poisonedTopic {
	t.Helper()
	p := &poisonedTopic{broker: servers.SharedKafka(t)}
	p.topic = NewTopicWith(t, p.broker, 8, NewLedger("kafka"), map[string]string{"max.message.bytes": "100000"})
	p.Bed = NewBed(t, Options{Topic: p.topic.Name, Top: []string{"on_exhausted: " + policy}, Sinks: []string{
		fmt.Sprintf("kafka: {kind: kafka, brokers: [%q]}", p.broker.Brokers()[0])}})
	p.MustCommand("init")
	p.truth = NewTruth(p.Bed)
	p.load = &Load{Rate: 1000, Topic: p.topic.Name, Delivered: p.topic.Ledger.Count}
	p.load.Run(p.Bed)
	p.relay = p.Start(nil)
	poison, err := Rows[int64](p.context(), p.Bed, `INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
		SELECT id, 'order', 'poison', 'Placed', jsonb_build_object('n', id, 'g', 'order:poison', 'pad',
			(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 10000)))
		FROM (SELECT nextval('message_id') AS id) AS new RETURNING id`)
	if err != nil {
		t.Fatal(err)
	}
	p.ids = poison
	for range 10 { // as the group grows, not at once
		p.ids = append(p.ids, p.insertOutbox("poison", poisonGroup/10)...)
	}
	return p
}

// awaitDead waits until the poison is a dead letter.
func (p *poisonedTopic) awaitDead() {
	p.tb.Helper()
	p.Eventually(30*time.Second, func() string {
		states := Ask[string](p.Bed, `SELECT coalesce(string_agg(state || ' ' || n, ', '), '') FROM
			(SELECT state, count(*) AS n FROM tailbox_parked GROUP BY state ORDER BY state) AS s`)
		if !strings.HasPrefix(states, "dead 1") {
			return fmt.Sprintf("parked: %q, want one dead delivery", states)
		}
		return ""
	})
}

// wantOthersFlow wants messages of other groups to be delivered while the group waits.
func (p *poisonedTopic) wantOthersFlow() {
	p.tb.Helper()
	written := p.load.Written()
	p.Eventually(30*time.Second, func() string {
		if got := p.topic.Ledger.Count(); got < written+2000 {
			return fmt.Sprintf("%d messages of other groups were delivered, want %d", got, written+2000)
		}
		return ""
	})
	waiting := Ask[int](p.Bed, `SELECT count(*) FROM tailbox_parked WHERE message_group <> 'order:poison'`)
	if waiting > 0 {
		p.tb.Errorf("parked deliveries of other groups: got %d, want none", waiting)
	}
	for _, id := range p.ids {
		if n, _ := p.topic.Ledger.Times(id); n > 0 {
			p.tb.Fatalf("message %d was delivered while its group waits", id)
		}
	}
}

// awaitRest waits until everything of the group but the first is delivered, and tells how long it took.
func (p *poisonedTopic) awaitRest(most time.Duration) {
	p.tb.Helper()
	began := time.Now()
	p.Eventually(most+time.Minute, func() string {
		missing := 0
		for _, id := range p.ids[1:] {
			if n, _ := p.topic.Ledger.Times(id); n == 0 {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("%d messages of the group were not delivered", missing)
		}
		return ""
	})
	took := time.Since(began)
	p.tb.Logf("the rest of the group was delivered within %v", took.Round(10*time.Millisecond))
	if took > most {
		p.tb.Errorf("delivery of the rest of the group: took %v, want at most %v", took, most)
	}
}

// finish wants everything settled, with at most dead dead letters left.
func (p *poisonedTopic) finish(dead int) {
	p.tb.Helper()
	p.load.Stop()
	want := ""
	if dead > 0 {
		want = fmt.Sprintf("%d deliveries are dead", dead)
	}
	p.Eventually(time.Minute, func() string {
		if got := p.Unsettled(); got != want && (want == "" || !strings.HasPrefix(got, want)) || strings.Contains(got, "outbox") {
			return got
		}
		return ""
	})
	p.relay.Stop()
	p.topic.CatchUp()
	p.truth.CatchUp()
	p.topic.Ledger.Check(p.truth, true)
	p.topic.Ledger.Verdict(p.tb)
	p.tb.Log(p.topic.Ledger)
}

// TestPoisonHold: under hold only the poison's group waits, until an operator edits or drops it; then the rest follows in
// order, soon.
func TestPoisonHold(t *testing.T) {
	for _, verb := range []string{"edit", "drop"} {
		t.Run(verb, func(t *testing.T) {
			p := newPoisonedTopic(t, "hold")
			p.awaitDead()
			p.wantOthersFlow()
			if text := p.MustCommand("dead", "list"); !strings.Contains(text, fmt.Sprint(p.ids[0])) {
				t.Errorf("tailbox dead list does not show message %d:\n%s", p.ids[0], text)
			}
			if verb == "edit" {
				p.MustCommand("dead", "edit", fmt.Sprint(p.ids[0]), "--payload", fmt.Sprintf(`{"n": %d, "g": "order:poison"}`, p.ids[0]))
			} else {
				p.topic.Ledger.GiveUp(p.ids[0])
				p.MustCommand("dead", "drop", fmt.Sprint(p.ids[0]), "--why", "too large")
			}
			p.awaitRest(time.Minute)
			p.finish(0)
			if got, _ := p.topic.Ledger.Times(p.ids[0]); got != map[string]int{"edit": 1}[verb] {
				t.Errorf("deliveries of the message that was poison, after %s: got %d", verb, got)
			}
		})
	}
}

// TestPoisonSkip: under skip the poison becomes a dead letter, and its group goes on.
func TestPoisonSkip(t *testing.T) {
	p := newPoisonedTopic(t, "skip")
	p.topic.Ledger.GiveUp(p.ids[0])
	p.awaitRest(time.Minute)
	p.awaitDead()
	p.finish(1)
}

// TestPoisonInBatch: a poison among many messages in shared requests is found, and the innocents spend no attempt.
func TestPoisonInBatch(t *testing.T) {
	for _, status := range []int{422, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			h := newHook(t, Options{Top: []string{"on_exhausted: skip", "retry: {attempts: 3, initial: 20ms, factor: 1}"}}, ", format: cloudevents-batch")
			poison := h.poisonEvery(t, 500, Answer{Status: status, Drop: true})
			h.MustCommand("init")
			load := &Load{Rate: 2000, Delivered: h.ledger.Count}
			load.Run(h.Bed)
			r := h.Start(nil)
			Pause(15 * time.Second)
			load.Stop()
			h.settledBut(poison)
			r.Stop()
			h.truth.CatchUp()
			h.ledger.Check(h.truth, true)
			h.ledger.Verdict(t)
			for _, rec := range h.ledger.records {
				if rec.attempt > 1 {
					t.Errorf("message %d was delivered with attempt %d, want 1: it was not poison", rec.id, rec.attempt)
				}
			}
			t.Logf("%s; %d were poison", h.ledger, len(poison()))
		})
	}
}

// poisonEvery makes the endpoint answer so to every request with a message whose id can be divided by n, and returns those
// that came.
func (h *hook) poisonEvery(t *testing.T, n int64, a Answer) func() []int64 {
	t.Helper()
	came := map[int64]bool{}
	h.endpoint.Answer(func(q Request) Answer {
		bad := false
		for _, d := range q.Deliveries {
			var id int64
			if _, err := fmt.Sscan(d.ID, &id); err == nil && id%n == 0 {
				came[id] = true
				bad = true
			}
		}
		if bad {
			return a
		}
		return Answer{}
	})
	return func() (ids []int64) {
		h.endpoint.mu.Lock()
		defer h.endpoint.mu.Unlock()
		for id := range came {
			ids = append(ids, id)
		}
		h.ledger.GiveUp(ids...)
		return ids
	}
}

// settledBut waits until everything is settled and only poison is dead.
func (h *hook) settledBut(poison func() []int64) {
	h.tb.Helper()
	h.Eventually(2*time.Minute, func() string {
		if n := Ask[int](h.Bed, `SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM events WHERE status NOT IN ('delivered', 'dead'))
			+ (SELECT count(*) FROM tailbox_parked WHERE state <> 'dead')`); n > 0 {
			return fmt.Sprintf("%d messages are not settled: %s", n, h.Unsettled())
		}
		return ""
	})
	dead, err := Rows[int64](h.context(), h.Bed, `SELECT message_id::bigint FROM tailbox_parked WHERE state = 'dead'`)
	if err != nil {
		h.tb.Fatal(err)
	}
	want := poison()
	slices.Sort(dead)
	slices.Sort(want)
	if !slices.Equal(dead, want) {
		h.tb.Errorf("dead letters: got %v, want those that were poison, %v", dead, want)
	}
}

// TestPoisonHangs: an endpoint that hangs on one message alone does not stop its sink.
func TestPoisonHangs(t *testing.T) {
	for _, format := range []string{"single", "cloudevents-batch"} {
		t.Run(format, func(t *testing.T) {
			h := newHook(t, Options{Top: []string{"on_exhausted: skip", "retry: {attempts: 3, initial: 20ms, factor: 1}"}},
				", concurrency: 4, format: "+format)
			h.MustCommand("init")
			ids := h.insertOutbox("hangs", 1)
			h.endpoint.Answer(func(q Request) Answer {
				if slices.ContainsFunc(q.Deliveries, func(d Delivery) bool { return d.ID == fmt.Sprint(ids[0]) }) {
					return Answer{Hang: true, Drop: true}
				}
				return Answer{}
			})
			load := &Load{Rate: 500, Delivered: h.ledger.Count, Backlog: 1 << 30}
			load.Run(h.Bed)
			r := h.Start(nil)
			Pause(20 * time.Second)
			load.Stop()
			written, got := load.Written(), h.ledger.Count()
			t.Logf("%d of %d messages were delivered beside one that hangs", got, written)
			if got < written*8/10 {
				t.Errorf("delivered while one message hangs: got %d of %d", got, written)
			}
			h.settledBut(func() []int64 { h.ledger.GiveUp(ids...); return ids })
			r.Stop()
			h.truth.CatchUp()
			h.ledger.Check(h.truth, true)
			h.ledger.Verdict(t)
		})
	}
}
