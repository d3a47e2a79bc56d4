package sink

import (
	"fmt"

	"github.com/tailbox/tailbox/outbox"
)

// MaxTopic bounds the topics of sinks that have no rule of their own, in bytes.
const MaxTopic = 1 << 10

// A TopicRule says which topics a sink can carry. It is comparable, and answers at once.
type TopicRule interface {
	// CheckTopic says what is wrong with a topic, without repeating it; nil if the sink can carry it.
	CheckTopic(topic string) error
}

// errTopic is what is wrong with a topic at a sink without a rule.
var errTopic = fmt.Errorf("a topic may have %d bytes", MaxTopic)

// CheckTopic says why the sink can carry no message of that topic: the error is permanent, and shows the beginning of the
// topic. The relay asks before it asks for the Destination, so that nothing of unbounded size is kept by name.
func (l *Limits) CheckTopic(topic string) error {
	var problem error
	if l.Topic != nil {
		problem = l.Topic.CheckTopic(topic)
	} else if len(topic) > MaxTopic {
		problem = errTopic
	}
	if problem == nil {
		return nil
	}
	return InvalidTopic(topic, problem)
}

// InvalidTopic is the permanent error of a message whose topic the sink cannot carry.
func InvalidTopic(topic string, problem error) error {
	return Permanent(fmt.Errorf("topic %q: %w: check route.topic.replacement and the topic's column", outbox.Shorten(topic), problem))
}
