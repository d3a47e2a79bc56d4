package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

const (
	partitions = 8
	batchSize  = 2000
	maxQueued  = 4 * batchSize
)

// producers write to a topic, one batch in flight a partition: what a program without any guarantee would do.
type producers struct {
	client *kafka.Client
	topic  string
	eager  bool
	all    []*producer
}

// producer writes to one partition.
type producer struct {
	*producers
	number int

	mu      sync.Mutex
	changed *sync.Cond
	queue   []kafka.Record
	flight  bool
	flush   bool
	err     error
}

func newProducers(ctx context.Context, brokers []string, topic string, eager bool) *producers {
	ps := &producers{client: &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 30 * time.Second, Transport: &kafka.Transport{}},
		topic: topic, eager: eager}
	for i := range partitions {
		p := &producer{producers: ps, number: i}
		p.changed = sync.NewCond(&p.mu)
		ps.all = append(ps.all, p)
		go p.work(ctx)
	}
	return ps
}

// add takes an insert of pgoutput: the key is the column aggregateid, the value the payload, in the shape debezium.
func (ps *producers) add(insert []byte) error {
	key, value, err := keyAndPayload(insert)
	if err != nil {
		return err
	}
	row := make([]byte, len(key)+len(value)) // the reader's buffer is reused
	copy(row, key)
	copy(row[len(key):], value)
	p := ps.all[partitionOf(key)]
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) >= maxQueued && p.err == nil {
		p.changed.Wait()
	}
	p.queue = append(p.queue, kafka.Record{Key: kafka.NewBytes(row[:len(key)]), Value: kafka.NewBytes(row[len(key):])})
	if len(p.queue) == batchSize || ps.eager {
		p.changed.Broadcast()
	}
	return p.err
}

// partitionOf is the partition of a key.
func partitionOf(key []byte) int {
	h := fnv.New32a()
	_, _ = h.Write(key) // it never fails
	return int(h.Sum32() % partitions)
}

// flush waits until everything is written.
func (ps *producers) flush() error {
	var errs []error
	for _, p := range ps.all {
		p.mu.Lock()
		p.flush = true
		p.changed.Broadcast()
		p.mu.Unlock()
	}
	for _, p := range ps.all {
		p.mu.Lock()
		for (len(p.queue) > 0 || p.flight) && p.err == nil {
			p.changed.Wait()
		}
		p.flush = false
		errs = append(errs, p.err)
		p.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (p *producer) work(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 || len(p.queue) < batchSize && !p.flush && !p.eager {
			p.changed.Wait()
		}
		n := min(len(p.queue), batchSize)
		batch := p.queue[:n:n]
		p.queue = append(make([]kafka.Record, 0, maxQueued), p.queue[n:]...)
		p.flight = true
		p.changed.Broadcast()
		p.mu.Unlock()
		answer, err := p.client.Produce(ctx, &kafka.ProduceRequest{Topic: p.topic, Partition: p.number,
			RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(batch...)})
		if err == nil {
			err = answer.Error
		}
		p.mu.Lock()
		p.flight = false
		if err != nil {
			p.err = fmt.Errorf("produce: %w", err)
		}
		p.changed.Broadcast()
		if err != nil {
			return
		}
	}
}

// keyAndPayload finds the third and the fifth column of an insert: id, aggregatetype, aggregateid, type, payload.
func keyAndPayload(insert []byte) (key, payload []byte, err error) {
	b := insert[6:] // 'I', relation, 'N'
	columns := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	for i := range columns {
		kind := b[0]
		b = b[1:]
		if kind != 't' && kind != 'b' {
			continue
		}
		size := int(binary.BigEndian.Uint32(b))
		value := b[4 : 4+size]
		b = b[4+size:]
		switch {
		case i == 2:
			key = value
		case i == 4 && kind == 'b' && len(value) > 0:
			payload = value[1:] // jsonb's version
		case i == 4:
			payload = value
		}
	}
	if key == nil || payload == nil {
		return nil, nil, errors.New("read insert: not of the shape debezium")
	}
	return key, payload, nil
}
