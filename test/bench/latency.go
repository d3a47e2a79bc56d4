package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	kafka "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/test/e2e"
)

const (
	latencyRate    = 2000 // messages a second
	latencyWriters = 8
	latencyWarmUp  = 3 * time.Second
	latencyLasts   = 15 * time.Second
)

// runLatency measures from before the insert until a consumer of the topic has the message, for a bare reader that produces
// and for a relay that deletes the rows: the consumer waits for both alike, so that the difference is the relay's.
func runLatency(ctx context.Context, b *bench) error {
	type figures struct{ p50, p99, rate []float64 }
	all := map[string]*figures{}
	const bare, relay = "bare reader + Produce", "Kafka, delete"
	names := []string{bare, relay}
	if b.relays {
		names = names[1:]
	}
	for round := range b.rounds {
		for i := range names {
			name := names[(round+i)%len(names)]
			laps, err := b.latency(ctx, name == bare)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			f := all[name]
			if f == nil {
				f = &figures{}
				all[name] = f
			}
			p50, p99 := e2e.Quantile(laps, 0.5), e2e.Quantile(laps, 0.99)
			f.p50, f.p99 = append(f.p50, p50.Seconds()*1000), append(f.p99, p99.Seconds()*1000)
			f.rate = append(f.rate, float64(len(laps))/latencyLasts.Seconds())
			fmt.Printf("  round %d: %-24s p50 %v p99 %v of %d messages\n", round+1, name, p50.Round(10*time.Microsecond), p99.Round(10*time.Microsecond), len(laps))
		}
	}
	for _, name := range names {
		f := all[name]
		b.table.note("latency, "+name, fmt.Sprintf("p50 %s ms, p99 %s ms, at %s msg/s", spreadOf(f.p50, "%.2f"), spreadOf(f.p99, "%.2f"),
			spreadOf(f.rate, "%.0f")), true, "")
	}
	b.table.measure("latency to Kafka, p50", true, all[relay].p50...)
	b.table.measure("latency to Kafka, p99", true, all[relay].p99...)
	if b.relays {
		return nil
	}
	var p50, p99 []float64
	for i := range b.rounds {
		p50 = append(p50, all[relay].p50[i]/all[bare].p50[i])
		p99 = append(p99, all[relay].p99[i]/all[bare].p99[i])
	}
	b.table.note("latency, relay over bare reader", fmt.Sprintf("p50 %s, p99 %s", spreadOf(p50, "%.2f"), spreadOf(p99, "%.2f")), true, "")
	return nil
}

func (b *bench) latency(ctx context.Context, bare bool) (laps []time.Duration, err error) {
	topic, err := b.topic(partitions)
	if err != nil {
		return nil, err
	}
	db, err := b.newBase(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop(ctx)) }()
	r, err := db.relay(ctx, false, withTopic(deleteTable, topic), b.kafkaSink(""))
	if err != nil {
		return nil, err
	}
	if bare {
		if r, err = db.bareReader(ctx, false, topic); err != nil {
			return nil, err
		}
		plain := r.cmd
		r.cmd = func(ctx context.Context) *exec.Cmd {
			cmd := plain(ctx)
			cmd.Args = append(cmd.Args, "-eager", "-end", "")
			return cmd
		}
	}
	err = db.during(ctx, r, func(int) error {
		laps, err = db.steady(ctx, topic)
		return err
	})
	return laps, err
}

// steady writes at a steady rate, one row a transaction, and measures at the consumer what was written after the warm-up.
func (db *base) steady(ctx context.Context, topic string) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &consumer{client: &kafka.Client{Addr: kafka.TCP(db.kafka.Brokers()...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}},
		from: time.Now().Add(latencyWarmUp)}
	ends, err := endsOf(ctx, c.client, topic) // to read what is there already would take processor time from those who are measured
	if err != nil {
		return nil, err
	}
	var consuming sync.WaitGroup
	for p := range partitions {
		consuming.Go(func() { follow(ctx, c.client, topic, p, ends[p], c.take) })
	}
	var written atomic.Int64
	errs := make(chan error, latencyWriters)
	begin := time.Now().Add(time.Second) // all are connected by then
	for w := range latencyWriters {
		go func() { errs <- db.writeSteadily(ctx, w, begin, c.from, &written) }()
	}
	var failed error
	for range latencyWriters {
		failed = errors.Join(failed, <-errs)
	}
	deadline := time.Now().Add(20 * time.Second)
	for failed == nil && c.count() < int(written.Load()) {
		if time.Now().After(deadline) {
			failed = fmt.Errorf("%d of %d messages came", c.count(), written.Load())
		}
		pause(10 * time.Millisecond)
	}
	cancel()
	consuming.Wait()
	return c.laps, failed
}

// writeSteadily is one writer. Writers take turns at even intervals: a common tick would make a burst of their rows. Rows after from are counted.
func (db *base) writeSteadily(ctx context.Context, writer int, begin, from time.Time, written *atomic.Int64) error {
	conn, err := pgx.Connect(ctx, db.pg.SocketURL(db.name))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	const every = time.Second * latencyWriters / latencyRate
	pause(time.Until(begin.Add(every * time.Duration(writer) / latencyWriters)))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		<-tick.C
		began := time.Now()
		if began.After(from.Add(latencyLasts)) {
			return nil
		}
		_, err := conn.Exec(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
			VALUES ('order', $1, 'OrderPlaced', jsonb_build_object('t', $2::bigint, 'note', repeat('x', 170)))`,
			fmt.Sprint((n*latencyWriters+writer)%spread), began.UnixNano())
		if err != nil {
			return err
		}
		if began.After(from) {
			written.Add(1)
		}
	}
}

// consumer reads a topic and measures.
type consumer struct {
	client *kafka.Client
	from   time.Time

	mu   sync.Mutex
	laps []time.Duration
}

func (c *consumer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.laps)
}

// endsOf returns the ends of a topic's partitions.
func endsOf(ctx context.Context, client *kafka.Client, topic string) (map[int]int64, error) {
	var asked []kafka.OffsetRequest
	for p := range partitions {
		asked = append(asked, kafka.LastOffsetOf(p))
	}
	answer, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return nil, err
	}
	ends := map[int]int64{}
	for _, p := range answer.Topics[topic] {
		if p.Error != nil {
			return nil, p.Error
		}
		ends[p.Partition] = p.LastOffset
	}
	return ends, nil
}

// follow reads a partition from an offset on until the context ends.
func follow(ctx context.Context, client *kafka.Client, topic string, partition int, next int64, take func(r *kafka.Record, at time.Time)) {
	for ctx.Err() == nil {
		answer, err := client.Fetch(ctx, &kafka.FetchRequest{Topic: topic, Partition: partition, Offset: next, MinBytes: 1,
			MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond})
		if err != nil || answer.Error != nil {
			continue
		}
		at := time.Now()
		for {
			record, err := answer.Records.ReadRecord()
			if err != nil {
				break
			}
			if record.Offset < next {
				continue
			}
			next = record.Offset + 1
			take(record, at)
		}
	}
}

func (c *consumer) take(r *kafka.Record, at time.Time) {
	text, err := kafka.ReadAll(r.Value)
	if err != nil {
		return
	}
	var body struct {
		T int64 `json:"t"`
	}
	if json.Unmarshal(text, &body) != nil {
		return
	}
	if began := time.Unix(0, body.T); began.After(c.from) {
		c.mu.Lock()
		c.laps = append(c.laps, at.Sub(began))
		c.mu.Unlock()
	}
}
