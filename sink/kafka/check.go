package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/tailbox/tailbox/sink"
)

// operationWrite is the bit of the permission to write in a topic's operations.
const operationWrite = 1 << 4

// Check implements sink.Checker: each configured broker can be reached and lets the relay in, so does each address that the brokers advertise, and each
// configured topic exists, has leaders and may be written. It makes no topics.
func (s *Sink) Check(ctx context.Context) []error {
	return sink.AppendProblem(s.check(ctx), s.cfg.plaintext())
}

func (s *Sink) check(ctx context.Context) []error {
	var problems []error
	reached := false
	for _, address := range s.cfg.Brokers {
		c, err := s.cluster.dialer.dial(ctx, address)
		if err != nil {
			problems = append(problems, hint(err))
			continue
		}
		reached = true
		s.cluster.put(c)
	}
	if !reached {
		return problems
	}
	r, err := s.cluster.metadata(ctx, &metadata.Request{TopicNames: append([]string{}, s.cfg.Topics...), IncludeTopicAuthorizedOperations: true})
	if err != nil {
		return append(problems, fmt.Errorf("ask for topics: %w", err))
	}
	problems = append(problems, s.checkAdvertised(ctx, r)...)
	for i := range r.Topics {
		if err := s.checkTopic(ctx, r, &r.Topics[i]); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// checkAdvertised dials the addresses that the brokers give for themselves, all at once: messages go there, and not to the configured ones.
func (s *Sink) checkAdvertised(ctx context.Context, r *metadata.Response) []error {
	addresses := slices.DeleteFunc(slices.Collect(maps.Values(brokersOf(r))), func(address string) bool { return slices.Contains(s.cfg.Brokers, address) })
	problems := make([]error, len(addresses))
	var dialing sync.WaitGroup
	for i, address := range addresses {
		dialing.Go(func() {
			c, err := s.cluster.dialer.dial(ctx, address)
			if err != nil {
				problems[i] = fmt.Errorf("%w: the brokers give this address for one of them (advertised.listeners), and messages are sent there: "+
					"make it reachable from here, or set brokers to a listener that advertises an address which is", err)
				return
			}
			s.cluster.put(c)
		})
	}
	dialing.Wait()
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// hint adds the fix to an error of connecting.
func hint(err error) error {
	if class, _, _ := sink.Classify(err); class == sink.ClassMisconfigured {
		return err // It has one.
	}
	return fmt.Errorf("%w: check brokers, the network, and that the listener wants tls and sasl as the sink has them", err)
}

func (s *Sink) checkTopic(ctx context.Context, r *metadata.Response, t *metadata.ResponseTopic) error {
	if !validTopic(t.Name) {
		return invalidTopic(t.Name)
	}
	code := kafkago.Error(t.ErrorCode)
	if code == kafkago.UnknownTopicOrPartition && s.makesTopics(ctx, r) {
		return nil
	}
	if code != 0 {
		return topicError(t.Name, code)
	}
	var leaderless []string
	for _, p := range t.Partitions {
		if p.LeaderID < 0 {
			leaderless = append(leaderless, strconv.Itoa(int(p.PartitionIndex)))
		}
	}
	if len(leaderless) > 0 {
		return fmt.Errorf("topic %s: partitions %s have no leader: bring their brokers back", t.Name, strings.Join(leaderless, ", "))
	}
	// Brokers before Kafka 2.3 do not say, and 0 or the lowest number means that.
	if t.TopicAuthorizedOperations > 0 && t.TopicAuthorizedOperations&operationWrite == 0 {
		return unauthorized(t.Name, errors.New("the relay's user may not write"))
	}
	return nil
}

// makesTopics reports whether the brokers are known to make missing topics by themselves.
func (s *Sink) makesTopics(ctx context.Context, r *metadata.Response) bool {
	if len(r.Brokers) == 0 {
		return false
	}
	s.cluster.learn(r, nil)
	value, err := s.cluster.setting(ctx, brokerResource, strconv.Itoa(int(r.Brokers[0].NodeID)), "auto.create.topics.enable")
	return err == nil && value == "true"
}
