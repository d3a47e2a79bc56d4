package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/tailbox/tailbox/sink"
)

// cluster knows the brokers and the topics that were asked for, and keeps connections.
type cluster struct {
	dialer *dialer
	// known is replaced as a whole, so that Destination reads it without a lock.
	known atomic.Pointer[topology]
	// asking holds one token while metadata are asked for, waiting one for each call that waits to know a new topic.
	asking, waiting chan struct{}
	questions       *questions

	mu   sync.Mutex
	idle map[string][]*conn // by address; the last used last
	shut bool
}

// A topology is what is known of the cluster. It is immutable.
type topology struct {
	brokers map[int32]string // addresses by id
	topics  map[string]*topic
}

// topic is what is known of one topic. It is immutable but for state.
type topic struct {
	name    string
	leaders []int32 // by partition; -1 = nobody
	asked   time.Time
	*state
}

// state of a topic outlives what is known of its partitions.
type state struct {
	// round goes round the partitions.
	round atomic.Uint32
	// limit is the largest record batch it accepts, as far as is known; 0 = not known.
	limit atomic.Int64
}

func newCluster(d *dialer) *cluster {
	c := &cluster{dialer: d, asking: make(chan struct{}, 1), waiting: make(chan struct{}, waitingCalls),
		questions: newQuestions(), idle: make(map[string][]*conn)}
	c.known.Store(&topology{})
	return c
}

func (c *cluster) topic(name string) *topic { return c.known.Load().topics[name] }

// get returns a connection to a broker, an idle one if there is any from which the broker reads.
func (c *cluster) get(ctx context.Context, address string) (*conn, error) {
	now := time.Now()
	for {
		c.mu.Lock()
		idle := c.idle[address]
		at := len(idle) - 1
		for at >= 0 && now.Before(idle[at].mutedUntil) {
			at--
		}
		if at < 0 {
			c.mu.Unlock()
			return c.dialer.dial(ctx, address)
		}
		last := idle[at]
		c.idle[address] = slices.Delete(idle, at, at+1)
		c.mu.Unlock()
		if last.alive(now) {
			return last, nil
		}
		_ = last.close() // It is dead or old: nothing depends on how it ends.
	}
}

// put gives a connection back after an answer.
func (c *cluster) put(used *conn) {
	used.idleSince = time.Now()
	c.mu.Lock()
	if !c.shut {
		c.idle[used.address] = append(c.idle[used.address], used)
		used = nil
	}
	c.mu.Unlock()
	if used != nil {
		_ = used.close() // The sink is closed: nobody waits for it.
	}
}

// prune closes connections to brokers that are gone, and those that were not used for long.
func (c *cluster) prune(brokers map[int32]string) {
	now := time.Now()
	var old []*conn
	c.mu.Lock()
	for address, idle := range c.idle {
		gone := !slices.Contains(slices.Collect(maps.Values(brokers)), address) && !slices.Contains(c.dialer.cfg.Brokers, address)
		kept := idle[:0]
		for _, one := range idle {
			if gone || !one.alive(now) {
				old = append(old, one)
			} else {
				kept = append(kept, one)
			}
		}
		clear(idle[len(kept):])
		if c.idle[address] = kept; len(kept) == 0 {
			delete(c.idle, address)
		}
	}
	c.mu.Unlock()
	for _, one := range old {
		_ = one.close() // Nothing depends on how it ends.
	}
}

func (c *cluster) close() error {
	c.mu.Lock()
	c.shut = true
	idle := c.idle
	c.idle = make(map[string][]*conn)
	c.mu.Unlock()
	var errs []error
	for _, conns := range idle {
		for _, one := range conns {
			errs = append(errs, one.close())
		}
	}
	return errors.Join(errs...)
}

// unusedAges times the age at which a topic in use is asked for again is how long one that nothing goes to is remembered, but
// unusedAtLeast.
const (
	unusedAges    = 4
	unusedAtLeast = time.Minute
)

// learn takes over the brokers of an answer, and what is known of topics by now; nil is nothing. It forgets topics that
// were not asked for in a long time: messages may go to any number of them, and they may be deleted.
func (c *cluster) learn(r *metadata.Response, found map[string]*topic) {
	unused := time.Now().Add(-max(unusedAges*c.dialer.cfg.MetadataAge, unusedAtLeast))
	c.mu.Lock()
	old := c.known.Load()
	next := &topology{brokers: brokersOf(r), topics: make(map[string]*topic, len(old.topics)+1)}
	for known, t := range old.topics {
		if !t.asked.Before(unused) {
			next.topics[known] = t
		}
	}
	for name, t := range found {
		if t != nil {
			next.topics[name] = t
		} else {
			delete(next.topics, name)
		}
	}
	c.known.Store(next)
	c.mu.Unlock()
	c.prune(next.brokers)
}

// metadata asks any broker: those that are known, then those of the configuration.
func (c *cluster) metadata(ctx context.Context, request *metadata.Request) (*metadata.Response, error) {
	known := slices.Collect(maps.Values(c.known.Load().brokers))
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	var failed error
	tried := make(map[string]bool)
	for _, address := range slices.Concat(known, c.dialer.cfg.Brokers) {
		if tried[address] {
			continue
		}
		tried[address] = true
		answer, err := c.request(ctx, address, request)
		if err == nil {
			return answer.(*metadata.Response), nil
		}
		failed = worse(failed, err)
	}
	if ctx.Err() != nil {
		failed = sink.NotAttempted(failed)
	}
	return nil, failed
}

// request sends a request that may be repeated to one broker. An idle connection that turns out to be dead says nothing
// about the broker: then a new one is tried. Its errors have a class.
func (c *cluster) request(ctx context.Context, address string, m protocol.Message) (protocol.Message, error) {
	for {
		used, err := c.get(ctx, address)
		if err != nil {
			return nil, err
		}
		requestCtx, cancel := context.WithTimeout(ctx, c.dialer.cfg.ConnectTimeout)
		answer, err := used.roundTrip(requestCtx, m)
		timeout := requestCtx.Err() != nil
		cancel()
		if err == nil {
			c.put(used)
			return answer, nil
		}
		if timeout || used.idleSince.IsZero() {
			return nil, sink.Unreachable(fmt.Errorf("ask broker %s for %v: %w%s", address, m.ApiKey(), err, c.dialer.hint(err)))
		}
	}
}

// worse joins two errors about brokers. One that says how to fix it counts more than one that is out of reach.
func worse(a, b error) error {
	if a == nil {
		return b
	}
	joined := errors.Join(a, b)
	for _, err := range []error{a, b} {
		if class, _, _ := sink.Classify(err); class == sink.ClassMisconfigured {
			return sink.Misconfigured(joined)
		}
	}
	return sink.Unreachable(joined)
}

func brokersOf(r *metadata.Response) map[int32]string {
	brokers := make(map[int32]string, len(r.Brokers))
	for _, b := range r.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	return brokers
}

func topicOf(r *metadata.Response, name string, old *topic) (*topic, error) {
	for i := range r.Topics {
		t := &r.Topics[i]
		if t.Name != name {
			continue
		}
		if t.ErrorCode != 0 {
			return nil, topicError(name, kafkago.Error(t.ErrorCode))
		}
		if len(t.Partitions) == 0 {
			return nil, topicError(name, kafkago.LeaderNotAvailable)
		}
		found := &topic{name: name, leaders: make([]int32, len(t.Partitions)), asked: time.Now(), state: new(state)}
		if old != nil {
			found.state = old.state
		}
		for n := range found.leaders {
			found.leaders[n] = -1
		}
		for _, p := range t.Partitions {
			if int(p.PartitionIndex) < len(found.leaders) && p.PartitionIndex >= 0 {
				found.leaders[p.PartitionIndex] = p.LeaderID
			}
		}
		return found, nil
	}
	return nil, topicError(name, kafkago.UnknownTopicOrPartition)
}

// pause waits, but not longer than ctx lives.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
