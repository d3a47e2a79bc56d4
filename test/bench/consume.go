package main

import (
	"context"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/tailbox/tailbox/test/servers"
)

// A consumer reads a topic of the broker that all contenders share.
type consumer struct {
	client *kafka.Client
	topic  string
	next   [partitions]int64 // offsets
}

func newConsumer(k *servers.KafkaServer, topic string) *consumer {
	return &consumer{topic: topic, client: &kafka.Client{Addr: kafka.TCP(k.Brokers()...), Timeout: 10 * time.Second, Transport: &kafka.Transport{}}}
}

// skip passes over what is in the topic.
func (c *consumer) skip(ctx context.Context) error {
	var asked []kafka.OffsetRequest
	for p := range partitions {
		asked = append(asked, kafka.LastOffsetOf(p))
	}
	answer, err := c.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{c.topic: asked}})
	if err != nil {
		return err
	}
	for _, p := range answer.Topics[c.topic] {
		if p.Error != nil {
			return p.Error
		}
		c.next[p.Partition] = p.LastOffset
	}
	return nil
}

// follow reads until the context ends. take gets each record, and when its fetch was answered. It reads as Kafka's own consumers do: one fetch asks for all
// partitions, within a session of the broker's, so that requests and answers hold only what has changed. All wait for the same processors, so what a consumer
// wastes would be measured, too.
func (c *consumer) follow(ctx context.Context, take func(r *kafka.Record, at time.Time)) {
	var session fetchSession
	for ctx.Err() == nil {
		answer, err := c.client.Transport.RoundTrip(ctx, c.client.Addr, session.request(c.topic, c.next))
		at := time.Now()
		if err == nil {
			err = session.accept(answer.(*fetch.Response))
		}
		if err != nil {
			session = fetchSession{}
			pause(10 * time.Millisecond)
			continue
		}
		for _, t := range answer.(*fetch.Response).Topics {
			for _, p := range t.Partitions {
				if p.RecordSet.Records != nil {
					c.read(int(p.Partition), p.RecordSet.Records, func(r *kafka.Record) { take(r, at) })
				}
			}
		}
	}
}

// A fetchSession is what a broker knows of a consumer, see KIP-227. The zero value asks the broker to begin one.
type fetchSession struct {
	id, epoch int32
	asked     [partitions]int64 // the offsets that the broker knows
}

func (s *fetchSession) request(topic string, next [partitions]int64) *fetch.Request {
	const wait, most = 500 * time.Millisecond, 8 << 20
	var changed []fetch.RequestPartition
	for p, offset := range next {
		if s.epoch == 0 || offset != s.asked[p] {
			changed = append(changed, fetch.RequestPartition{Partition: int32(p), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: most})
		}
	}
	s.asked = next
	r := &fetch.Request{ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: most, SessionID: s.id, SessionEpoch: s.epoch}
	if len(changed) > 0 {
		r.Topics = []fetch.RequestTopic{{Topic: topic, Partitions: changed}}
	}
	return r
}

// accept goes on to the next request, unless the broker has forgotten the session, or cannot read a partition.
func (s *fetchSession) accept(r *fetch.Response) error {
	if r.ErrorCode != 0 {
		return kafka.Error(r.ErrorCode)
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return kafka.Error(p.ErrorCode)
			}
		}
	}
	s.id = r.SessionID
	s.epoch++
	return nil
}

// read reads records of a partition. A broker answers with whole batches, which may begin before what was asked for.
func (c *consumer) read(partition int, records kafka.RecordReader, take func(*kafka.Record)) {
	for {
		r, err := records.ReadRecord()
		if err != nil {
			return
		}
		if r.Offset >= c.next[partition] {
			c.next[partition] = r.Offset + 1
			take(r)
		}
	}
}
