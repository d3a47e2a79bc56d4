// Package kafka is a sink that writes to Apache Kafka 1.0 and later, and to what speaks its protocol.
//
// Key, value and headers of a record are the delivery's; its timestamp is what the router places, else the time of
// the commit. The partition is the router's placement, else it follows from the key, else from the group, by the hash
// of Kafka's own Java clients; what has neither goes round. acks=all, always.
//
// # Order
//
// A call goes to one partition, as one record batch, which Kafka appends as a whole or not at all; there is one request
// in flight to a partition. A batch whose answer was lost may have been appended: it is unavailable, and sent again by
// the relay, so consumers may see its messages twice, but the first time in order. When a topic gets more partitions,
// keys move: Kafka itself keeps no order across that, whoever writes.
//
// # Errors
//
// No connection, or a request that could not be written in full: unreachable. Written, and no answer: unavailable. An answer
// that leaves it open whether the batch was appended: rejected. A batch that a broker refuses because of a message is permanent: of
// that message if the broker names it, else of the whole call. A partition that moved is found again without cost.
// Unknown topics, missing permissions, failed authentication, and policies against the client wait for the operator. If
// a quota is used up, the broker takes the batch and says how long it takes nothing more: until then the sink sends it
// nothing, and answers throttled.
package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"github.com/tailbox/tailbox/sink"
)

// A Sink writes to one cluster. It is made by New.
type Sink struct {
	cfg      Config
	cluster  *cluster
	requests sync.Pool
	outages  outages
	quotas   quotas
}

// New makes a Sink. It opens no connection.
func New(cfg Config) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	tlsConfig, err := cfg.TLS.Config()
	if err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg, cluster: newCluster(&dialer{cfg: cfg, tls: tlsConfig})}
	s.outages.known = make(map[sink.Destination]*outage)
	s.quotas.until = make(map[string]time.Time)
	s.requests.New = func() any { return s.newProduce() }
	return s, nil
}

func (s *Sink) newProduce() *produce {
	code, ok := compressionCode(s.cfg.Compression)
	if !ok {
		code = compress.None
	}
	// The broker's time is up before ours, so that its answer says what became of the batch.
	return &produce{clientID: s.cfg.ClientID, compression: code, metadata: !s.cfg.OmitMetadata, timeout: s.cfg.Timeout * 3 / 4}
}

// Limits implements sink.Sink. A record batch is appended as a whole, so that a run may fill it.
func (s *Sink) Limits() sink.Limits {
	return sink.Limits{Batch: s.cfg.MaxBatch, Bytes: s.cfg.MaxBytes, Concurrency: s.cfg.Concurrency, PerDestination: 1, Run: s.cfg.MaxBatch,
		Topic: topicRule{}}
}

// Destination implements sink.Destinations.
func (s *Sink) Destination(d *sink.Delivery) sink.Destination {
	t := s.cluster.topic(d.Topic)
	if t == nil {
		return sink.Destination{Name: d.Topic, Partition: -1}
	}
	return sink.Destination{Name: d.Topic, Partition: choose(d, len(t.leaders), t.next)}
}

func (t *topic) next() uint32 { return t.round.Add(1) }

// has reports whether the topic, nil if it is not known, has a partition of that number.
func (t *topic) has(partition int32) bool {
	return t != nil && partition >= 0 && int(partition) < len(t.leaders)
}

// Deliver implements sink.Sink.
func (s *Sink) Deliver(ctx context.Context, ds []*sink.Delivery) []error {
	if len(ds) == 0 {
		return nil
	}
	to := ds[0].Destination
	if to == (sink.Destination{}) {
		to = s.Destination(ds[0])
	}
	t, answers := s.find(ctx, to, ds)
	if answers != nil {
		return answers
	}
	p := s.requests.Get().(*produce)
	defer func() {
		if p.recycle() {
			s.requests.Put(p)
		}
	}()
	// One request, or several one after the other where one batch cannot hold ds.
	for at := 0; at < len(ds); {
		limit := maxRecordBatch
		if known := int(t.limit.Load()); known > 0 {
			limit = min(limit, known)
		}
		count, err := p.encode(to, ds[at:], limit, time.Now())
		var refused map[int]error
		if err == nil {
			refused, err = s.produce(ctx, t, to, p, ds[at:at+count])
		} else {
			count = 1
		}
		if err == nil {
			at += count
			continue
		}
		answers := make([]error, len(ds))
		for i := at; i < len(ds); i++ {
			answers[i] = sink.ErrNotAttempted
			if i < at+count && refused == nil {
				answers[i] = err
			} else if own := refused[i-at]; own != nil {
				answers[i] = own
			}
		}
		return answers
	}
	return nil
}

// find returns the topic of a call, or why its deliveries cannot go there.
func (s *Sink) find(ctx context.Context, to sink.Destination, ds []*sink.Delivery) (*topic, []error) {
	if !validTopic(to.Name) {
		return nil, all(len(ds), invalidTopic(to.Name))
	}
	t := s.cluster.topic(to.Name)
	if t.has(to.Partition) {
		// A topic that was deleted and made anew may have fewer partitions.
		if t = s.renewed(ctx, t); t.has(to.Partition) {
			return t, nil
		}
	} else {
		var err error
		if t, err = s.cluster.resolve(ctx, to.Name, t); err != nil {
			return nil, all(len(ds), err)
		}
	}
	answers := all(len(ds), errMissing)
	for i, d := range ds {
		if p := d.Partition; p != nil && (*p < 0 || int(*p) >= len(t.leaders)) {
			answers[i] = noPartition(t, *p)
		}
	}
	return nil, answers
}

// renewed asks for a topic's partitions again when they were last asked for long ago. One caller does so, and the others
// go on; if it fails, what is known will do: a leader that has changed says so itself.
func (s *Sink) renewed(ctx context.Context, t *topic) *topic {
	if time.Since(t.asked) < s.cfg.MetadataAge {
		return t
	}
	select {
	case s.cluster.asking <- struct{}{}:
	default:
		return t
	}
	defer func() { <-s.cluster.asking }()
	if found, _ := s.cluster.ask(ctx, []string{t.name}); found[t.name] != nil {
		return found[t.name]
	}
	return t
}

// Close implements sink.Sink.
func (s *Sink) Close(context.Context) error { return s.cluster.close() }

func all(n int, err error) []error {
	answers := make([]error, n)
	for i := range answers {
		answers[i] = err
	}
	return answers
}
