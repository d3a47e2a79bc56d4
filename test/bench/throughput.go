package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Configurations of the table; the relay's init makes it.
const (
	keepTable   = "{name: outbox, shape: debezium, on_delivered: keep, router: {route.topic.replacement: TOPIC}}"
	deleteTable = "{name: outbox, shape: debezium, on_delivered: delete, router: {route.topic.replacement: TOPIC}}"
	markTable   = "{name: events, shape: tailbox, on_delivered: mark}"

	discardSink = "sinks: {out: {kind: discard}}"

	// mostProcessor is the most processor time a message of a relay, in terms of the bare reader's, whatever it does beside
	// reading.
	mostProcessor = 1.3
)

// A contest is runs on one backlog.
type contest struct {
	name string
	bare bool
	run  func(context.Context, *base) (runner, error)
	// against is the contest whose figures these are held against; "" = none.
	against string
	target  float64 // of the ratio of rates
	cpu     float64 // most processor time a message, in terms of the other's; 0 = none
}

// rounds repeats all contests, on a new backlog each time and in a new order, and notes what they took.
func (b *bench) contests(ctx context.Context, groups int, cs []contest) error {
	figures := map[string][]drain{}
	if b.relays {
		cs = slices.DeleteFunc(cs, func(c contest) bool { return c.bare })
	}
	cs = its(b, cs)
	for round := range b.rounds {
		if err := b.round(ctx, round, groups, cs, figures); err != nil {
			return err
		}
	}
	for _, c := range cs {
		b.table.add(c.name, c.against, figures[c.name], figures[c.against], c.target, c.cpu)
	}
	return nil
}

func (b *bench) round(ctx context.Context, round, groups int, cs []contest, figures map[string][]drain) (err error) {
	db, err := b.newBase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	runners := make([]runner, len(cs))
	// Relays come first: their init makes table and publication.
	for _, bare := range []bool{false, true} {
		for i, c := range cs {
			if c.bare == bare {
				if runners[i], err = c.run(ctx, db); err != nil {
					return err
				}
			}
		}
	}
	if err := db.fill(ctx, b.rows, perTxn, groups); err != nil {
		return err
	}
	for _, i := range rand.Perm(len(cs)) {
		d, err := db.run(ctx, runners[i], b.rows)
		if err != nil {
			return err
		}
		figures[cs[i].name] = append(figures[cs[i].name], d)
		fmt.Printf("  round %d: %-40s %8.0f msg/s, %5.2f µs processor a message, %3d MB%s\n", round+1, cs[i].name, d.rate(), d.micros(), d.rss>>20, d.perCall())
	}
	return nil
}

// bareContest is a bare reader, alone or producing to a topic of its own.
func bareContest(name string, tcp, produce bool) contest {
	return contest{name: name, bare: true, run: func(ctx context.Context, db *base) (runner, error) {
		topic := ""
		if produce {
			var err error
			if topic, err = db.topic(partitions); err != nil {
				return runner{}, err
			}
		}
		return db.bareReader(ctx, tcp, topic)
	}}
}

// relayContest is a relay with a sink that needs no server.
func relayContest(name, against string, tcp bool, table string, target float64) contest {
	return contest{name: name, against: against, target: target, cpu: mostProcessor, run: func(ctx context.Context, db *base) (runner, error) {
		return db.relay(ctx, tcp, withTopic(table, "discarded"), discardSink)
	}}
}

// kafkaContest is a relay to a topic of its own.
func kafkaContest(name, against string, tcp bool, target float64, keys string) contest {
	return contest{name: name, against: against, target: target, cpu: mostProcessor, run: func(ctx context.Context, db *base) (runner, error) {
		topic, err := db.topic(partitions)
		if err != nil {
			return runner{}, err
		}
		return db.relay(ctx, tcp, withTopic(keepTable, topic), db.kafkaSink(keys))
	}}
}

func (b *bench) kafkaSink(keys string) string {
	return fmt.Sprintf("sinks: {out: {kind: kafka, brokers: [%q]%s}}", b.kafka.Brokers()[0], keys)
}

func runDiscard(ctx context.Context, b *bench) error {
	var cs []contest
	for _, tcp := range []bool{false, true} {
		bare := "bare reader, " + network(tcp)
		cs = append(cs, bareContest(bare, tcp, false), relayContest("discard, keep, "+network(tcp), bare, tcp, keepTable, 0.9))
	}
	return b.contests(ctx, spread, cs)
}

func runKafka(ctx context.Context, b *bench) error {
	var cs []contest
	for _, tcp := range []bool{false, true} {
		bare := "bare reader + Produce, " + network(tcp)
		cs = append(cs, bareContest(bare, tcp, true), kafkaContest("Kafka, keep, "+network(tcp), bare, tcp, 0.85, ""))
		if !tcp {
			cs = append(cs, kafkaContest("Kafka, keep, Unix, no tailbox-* headers", bare, tcp, 0, ", metadata_headers: false"))
		}
	}
	// A broker that has just started runs code that is not compiled yet, and whoever comes first pays for it.
	warm := []contest{kafkaContest("warming the broker up", "", false, 0, ""), bareContest("warming the broker up, bare", false, true)}
	if !b.warm {
		if err := b.round(ctx, 0, spread, warm, map[string][]drain{}); err != nil {
			return err
		}
		b.warm = true
	}
	return b.contests(ctx, spread, cs)
}

func runDelete(ctx context.Context, b *bench) error {
	const bare = "bare reader, Unix, before delete"
	return b.contests(ctx, spread, []contest{bareContest(bare, false, false),
		relayContest("discard, delete, Unix", bare, false, deleteTable, 0.5)})
}

func runMark(ctx context.Context, b *bench) error {
	const bare = "bare reader, Unix, before mark"
	return b.contests(ctx, spread, []contest{bareContest(bare, false, false),
		relayContest("discard, mark, Unix", bare, false, markTable, 0.35)})
}

// runHot compares one group with many. They need backlogs of their own, so they are contests of one each, in turn.
func runHot(ctx context.Context, b *bench) error {
	const many, one = "Kafka, keep, spread over 1000 groups", "Kafka, keep, one hot group"
	figures := map[string][]drain{}
	for round := range b.rounds {
		for _, c := range []struct {
			name   string
			groups int
		}{{many, spread}, {one, 1}} {
			if err := b.round(ctx, round, c.groups, []contest{kafkaContest(c.name, "", false, 0, "")}, figures); err != nil {
				return err
			}
		}
	}
	b.table.add(many, "", figures[many], nil, 0, 0)
	b.table.add(one, many, figures[one], figures[many], 0.5, 0)
	return nil
}

func withTopic(table, topic string) string { return strings.ReplaceAll(table, "TOPIC", topic) }
