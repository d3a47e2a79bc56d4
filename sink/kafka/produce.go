package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"github.com/tailbox/tailbox/sink"
)

// errTimeout is the cause of a request's end that the configuration's timeout brought about.
var errTimeout = errors.New("timeout")

// minVersion of a produce request is the first with record batches; from there up to the highest that the library
// knows, they all have one form.
const minVersion = 3

// produce sends the request in p, which holds ds, and returns nil when all are durable. If the broker names the messages that
// are at fault, refused has their errors by index.
func (s *Sink) produce(ctx context.Context, t *topic, to sink.Destination, p *produce, ds []*sink.Delivery) (refused map[int]error, err error) {
	count := len(ds)
	known := s.cluster.known.Load()
	address, ok := known.brokers[t.leaders[to.Partition]]
	if !ok {
		return nil, s.moved(ctx, t, to, fmt.Errorf("partition %d of topic %s has no leader", to.Partition, to.Name))
	}
	if rest := s.quotas.rest(address); rest > 0 {
		return nil, s.throttled(address, rest)
	}
	answer, err := s.request(ctx, address, p, whole(count))
	if err != nil {
		return nil, s.unreached(ctx, t, to, address, err)
	}
	if answer.code == 0 {
		s.outages.over(to)
		receipts(ds, to.Partition, answer.offset)
		return nil, nil
	}
	return s.refused(ctx, t, to, p, count, answer)
}

// receipts notes where messages were appended.
func receipts(ds []*sink.Delivery, partition int32, first int64) {
	for i, d := range ds {
		if d.Receipt != nil {
			d.Receipt.Set(fmt.Sprintf("partition=%d offset=%d", partition, first+int64(i)))
		}
	}
}

// whole returns what makes an error about all of a call's deliveries out of one about any of them.
func whole(count int) func(error) error {
	if count > 1 {
		return sink.Whole
	}
	return func(err error) error { return err }
}

// request sends the request to one broker. An idle connection that turns out to be dead before the request was written
// says nothing about the broker: then another one is tried. Its errors have a class.
func (s *Sink) request(ctx context.Context, address string, p *produce, whole func(error) error) (*appended, error) {
	for {
		c, err := s.cluster.get(ctx, address)
		if err != nil {
			return nil, err
		}
		answer, err := s.exchange(ctx, c, p, whole)
		if class, _, _ := sink.Classify(err); err == nil || class != sink.ClassUnreachable || c.idleSince.IsZero() {
			return answer, err
		}
	}
}

// exchange sends the request over c and gives c back. Its errors have a class.
func (s *Sink) exchange(ctx context.Context, c *conn, p *produce, whole func(error) error) (*appended, error) {
	version, err := c.version(protocol.Produce)
	if err == nil && version < minVersion {
		err = sink.Misconfigured(fmt.Errorf("broker %s is too old: use Kafka 1.0 or later", c.address))
	}
	if err != nil {
		s.cluster.put(c)
		return nil, err
	}
	c.correlation++
	binary.BigEndian.PutUint16(p.request[versionAt:], uint16(version))
	binary.BigEndian.PutUint32(p.request[correlationAt:], uint32(c.correlation))
	answer, sent, err := c.exchange(ctx, s.cfg.Timeout, protocol.Produce, version, p.request)
	switch {
	case err == nil:
		appended := answer.(*appended)
		c.mutedUntil = s.quotas.note(c.address, appended.throttle)
		s.cluster.put(c)
		return appended, nil
	case sent && errors.Is(err, errTimeout):
		return nil, whole(sink.Unavailable(fmt.Errorf("produce to broker %s: no answer within %v (possible duplicate: the batch may have been appended)",
			c.address, s.cfg.Timeout)))
	case sent:
		return nil, whole(sink.Unavailable(fmt.Errorf("produce to broker %s: no answer (possible duplicate: the batch may have been appended): %w", c.address, err)))
	case ctx.Err() != nil:
		return nil, sink.NotAttempted(fmt.Errorf("produce to broker %s: %w", c.address, err))
	}
	return nil, sink.Unreachable(fmt.Errorf("produce to broker %s: %w", c.address, err))
}

// unreached handles a leader that cannot be reached: perhaps another broker leads by now.
func (s *Sink) unreached(ctx context.Context, t *topic, to sink.Destination, address string, err error) error {
	if class, _, _ := sink.Classify(err); class != sink.ClassUnreachable || s.cluster.only(address) {
		return err
	}
	newer, askErr := s.cluster.resolve(ctx, t.name, t)
	if askErr == nil && int(to.Partition) < len(newer.leaders) && s.cluster.known.Load().brokers[newer.leaders[to.Partition]] != address {
		return s.outages.note(to, err)
	}
	return err
}

// only reports whether there is no broker to ask but the one at address.
func (c *cluster) only(address string) bool {
	for _, other := range c.dialer.cfg.Brokers {
		if other != address {
			return false
		}
	}
	for _, other := range c.known.Load().brokers {
		if other != address {
			return false
		}
	}
	return true
}

// moved finds out who leads a partition by now. The deliveries were not appended, or no longer count where they were, and
// are sent again at no cost.
func (s *Sink) moved(ctx context.Context, t *topic, to sink.Destination, cause error) error {
	newer, err := s.cluster.resolve(ctx, t.name, t)
	if err != nil {
		return err
	}
	if int(to.Partition) >= len(newer.leaders) || newer.leaders[to.Partition] == t.leaders[to.Partition] {
		// Nothing has changed yet: elections take their time.
		pause(ctx, 100*time.Millisecond)
	}
	return s.outages.note(to, cause)
}

// refused classifies a broker's refusal.
func (s *Sink) refused(ctx context.Context, t *topic, to sink.Destination, p *produce, count int, answer *appended) (map[int]error, error) {
	code := kafkago.Error(answer.code)
	err := fmt.Errorf("produce to partition %d of topic %s: %w", to.Partition, to.Name, kafkaError(answer.code, answer.message))
	switch judge(code) {
	case poison:
		permanent := sink.Permanent(err)
		if named := blamed(answer, count, err); named != nil {
			return named, permanent
		}
		return nil, whole(count)(permanent)
	case policy:
		if named := blamed(answer, count, err); named != nil {
			return named, sink.Permanent(err)
		}
		// A policy may also look at records, so that each message has to be tried by itself.
		return nil, whole(count)(againstPolicy(err))
	case tooLarge:
		return nil, s.tooLarge(ctx, t, p, count, err)
	case elsewhere:
		return nil, s.moved(ctx, t, to, err)
	case weak:
		return nil, sink.Unavailable(fmt.Errorf("%w: too few replicas are in sync: bring brokers back, or lower min.insync.replicas", err))
	case late:
		return nil, whole(count)(sink.Unavailable(fmt.Errorf("%w (possible duplicate: the batch may have been appended)", err)))
	case denied:
		return nil, deny(to.Name, code, err)
	case slow:
		return nil, sink.Throttled(err, min(answer.throttle, mostThrottle))
	}
	return nil, whole(count)(sink.Rejected(err))
}

// blamed returns the errors of the messages that the broker names, by index; nil if it names none of the count messages.
func blamed(answer *appended, count int, err error) map[int]error {
	var named map[int]error
	for _, r := range answer.refused {
		i := int(r.index)
		if i < 0 || i >= count {
			continue
		}
		if named == nil {
			named = make(map[int]error, len(answer.refused))
		}
		named[i] = sink.Permanent(fmt.Errorf("%w: %s", err, sink.OneLine(r.text)))
	}
	return named
}

// tooLarge handles a record batch that is larger than its topic allows. If the topic allows less than was assumed, smaller
// batches will do, at no cost for the messages.
func (s *Sink) tooLarge(ctx context.Context, t *topic, p *produce, count int, err error) error {
	if count == 1 {
		return sink.Permanent(fmt.Errorf("%w: the message makes a batch of %d bytes: raise max.message.bytes of the topic", err, p.sent))
	}
	if limit, ok := s.messageLimit(ctx, t.name); ok && limit < int64(p.size) {
		t.limit.Store(limit)
		return sink.NotAttempted(fmt.Errorf("%w: smaller batches follow", err))
	}
	return sink.Whole(sink.Permanent(err))
}

// messageLimit asks for a topic's max.message.bytes. Not being allowed to know is no error: then the relay narrows down
// what is too large by itself.
func (s *Sink) messageLimit(ctx context.Context, name string) (int64, bool) {
	value, err := s.cluster.setting(ctx, topicResource, name, "max.message.bytes")
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseInt(value, 10, 64)
	return limit, err == nil && limit > 0
}

// Types of a resource that has settings.
const (
	topicResource  int8 = 2
	brokerResource int8 = 4
)

// setting asks a broker for one setting of a topic, or of itself.
func (c *cluster) setting(ctx context.Context, resource int8, name, key string) (string, error) {
	address := c.dialer.cfg.Brokers[0]
	for id, known := range c.known.Load().brokers {
		if address = known; resource == topicResource || strconv.Itoa(int(id)) == name {
			break
		}
	}
	answer, err := c.request(ctx, address, &describeconfigs.Request{Resources: []describeconfigs.RequestResource{
		{ResourceType: resource, ResourceName: name, ConfigNames: []string{key}},
	}})
	if err != nil {
		return "", err
	}
	for _, r := range answer.(*describeconfigs.Response).Resources {
		if r.ErrorCode != 0 {
			return "", kafkaError(r.ErrorCode, r.ErrorMessage)
		}
		for _, entry := range r.ConfigEntries {
			if entry.ConfigName == key {
				return entry.ConfigValue, nil
			}
		}
	}
	return "", fmt.Errorf("broker %s names no setting %s", address, key)
}

func noPartition(t *topic, partition int32) error {
	return sink.Permanent(fmt.Errorf("topic %s has no partition %d, which the router places: it has %d, from 0", t.name, partition, len(t.leaders)))
}

// patience is how long a partition may be without a leader before the relay is told that it is out of reach.
const patience = 5 * time.Second

// outages remembers which partitions have an outage. Most of the time there are none.
type outages struct {
	count atomic.Int64
	mu    sync.Mutex
	known map[sink.Destination]*outage
}

// outage is when a partition's failures began, and when the last one was.
type outage struct{ since, last time.Time }

// outageKept is how long the sink remembers the outage of a partition to which it sends nothing any more: the topic may be gone.
const outageKept = 10 * time.Minute

// note notes one more failure, and classifies it: free and at once for a while, then unreachable.
func (t *outages) note(to sink.Destination, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	one := t.known[to]
	if one == nil {
		for old, other := range t.known {
			if now.Sub(other.last) > outageKept {
				delete(t.known, old)
			}
		}
		one = &outage{since: now}
		t.known[to] = one
		t.count.Store(int64(len(t.known)))
	}
	one.last = now
	if now.Sub(one.since) > patience {
		return sink.Unreachable(err)
	}
	return sink.NotAttempted(err)
}

// over notes a success.
func (t *outages) over(to sink.Destination) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, to)
	t.count.Store(int64(len(t.known)))
}
