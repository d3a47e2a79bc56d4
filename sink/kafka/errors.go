package kafka

import (
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/tailbox/tailbox/sink"
)

// kafkaError is a code with what the broker says about it.
func kafkaError(code int16, text string) error {
	if text == "" {
		return kafkago.Error(code)
	}
	return fmt.Errorf("%w: %s", kafkago.Error(code), sink.OneLine(text))
}

// topicError classifies what a broker says about a topic that was asked for.
func topicError(name string, code kafkago.Error) error {
	switch code {
	case kafkago.UnknownTopicOrPartition:
		return sink.Misconfigured(fmt.Errorf("topic %s does not exist: %w: create it (kafka-topics.sh --create --topic %s --partitions N), "+
			"or let the brokers do so (auto.create.topics.enable=true)", name, code, name))
	case kafkago.InvalidTopic:
		return brokerRefuses(name, code)
	case kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed:
		return unauthorized(name, code)
	}
	return sink.Unreachable(fmt.Errorf("ask for topic %s: %w", name, code))
}

var errTopic = errors.New("names that Kafka allows have 1 to 249 letters, digits, and . _ -")

func invalidTopic(name string) error { return sink.InvalidTopic(name, errTopic) }

// topicRule implements sink.TopicRule.
type topicRule struct{}

func (topicRule) CheckTopic(topic string) error {
	if !validTopic(topic) {
		return errTopic
	}
	return nil
}

// brokerRefuses is the error of a topic whose name follows Kafka's rules and is refused all the same.
func brokerRefuses(topic string, err error) error {
	return sink.Misconfigured(fmt.Errorf("topic %s: %w: it is one of the broker's own, or differs from another topic in . and _ alone", topic, err))
}

func unauthorized(topic string, err error) error {
	return sink.Misconfigured(fmt.Errorf("topic %s: %w: allow the relay's user to describe and write it (kafka-acls.sh --add "+
		"--allow-principal User:NAME --operation Describe --operation Write --topic %s)", topic, err, topic))
}

// validTopic reports whether Kafka allows a topic of that name.
func validTopic(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return false
	}
	return true
}

// verdict says what a broker's refusal of a record batch means.
type verdict uint8

const (
	// ambiguous: the batch may have been appended. Rejected.
	ambiguous verdict = iota
	// poison: a message is at fault. Permanent.
	poison
	// tooLarge: the batch, or its one message, is larger than the topic allows.
	tooLarge
	// elsewhere: the partition has moved, or nobody leads it for the moment. Ask again who does.
	elsewhere
	// weak: not appended, because too few replicas are in sync.
	weak
	// late: appended, but not by as many replicas as are asked for, or not in time.
	late
	// denied: an operator has to act.
	denied
	// policy: a policy of the broker, or of a gateway before it. It is about the client or the topic, unless the answer names records.
	policy
	// slow: the client has used up its quota.
	slow
)

func judge(code kafkago.Error) verdict {
	switch code {
	case kafkago.InvalidRecord, kafkago.InvalidTimestamp:
		return poison
	case kafkago.PolicyViolation:
		return policy
	case kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge:
		return tooLarge
	case kafkago.NotLeaderForPartition, kafkago.LeaderNotAvailable, kafkago.UnknownTopicOrPartition, kafkago.BrokerNotAvailable,
		kafkago.ReplicaNotAvailable, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch, kafkago.KafkaStorageError:
		return elsewhere
	case kafkago.NotEnoughReplicas:
		return weak
	case kafkago.NotEnoughReplicasAfterAppend, kafkago.RequestTimedOut:
		return late
	case kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed, kafkago.InvalidTopic, kafkago.InvalidRequiredAcks,
		kafkago.UnsupportedVersion, kafkago.UnsupportedForMessageFormat, kafkago.UnsupportedCompressionType:
		return denied
	case kafkago.ThrottlingQuotaExceeded:
		return slow
	}
	return ambiguous
}

// againstPolicy is the error of a batch that a policy refuses as a whole. Gateways have policies about what a client does: if such a one is switched
// on, it meets every message.
func againstPolicy(err error) error {
	return sink.Misconfigured(fmt.Errorf("%w: a policy of the broker, or of a gateway before it, refuses the batch: check the sink's compression, "+
		"and whether the policy demands an idempotent producer or transactions, which tailbox does not use", err))
}

// deny classifies a refusal that an operator has to fix.
func deny(topic string, code kafkago.Error, err error) error {
	switch code {
	case kafkago.InvalidTopic:
		return brokerRefuses(topic, err)
	case kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed:
		return unauthorized(topic, err)
	case kafkago.UnsupportedCompressionType, kafkago.UnsupportedForMessageFormat:
		return sink.Misconfigured(fmt.Errorf("topic %s: %w: set the sink's compression to one that the topic's brokers know", topic, err))
	}
	return sink.Misconfigured(fmt.Errorf("topic %s: %w", topic, err))
}

// errMissing answers deliveries whose topic was not known yet when they were sent out.
var errMissing = sink.NotAttempted(errors.New("not attempted: the topic's partitions were not known yet"))
