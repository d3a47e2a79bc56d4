package router

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync/atomic"
)

// Defaults of Debezium's outbox event router.
const (
	defaultTopicRegex       = `(?<routedByValue>.*)`
	defaultTopicReplacement = `outbox.event.${routedByValue}`
)

// maxCachedTopics bounds the cache of one table's topics, and maxCachedValue the texts in it. Aggregate types are few and short; if they are not, the
// rest is computed each time.
const maxCachedTopics, maxCachedValue = 1024, 256

// A topicRule turns the value of the topic column into the topic, as Debezium does with Kafka's RegexRouter: where the
// regular expression matches the whole value, its first match in the value is replaced; otherwise the value is the
// topic. The rule in then, if any, does the same with that topic.
type topicRule struct {
	regex *regexp.Regexp
	whole *regexp.Regexp
	parts []replacementPart
	then  *topicRule
	// cache holds topics by value. It is copied on write, so that reading it needs neither lock nor allocation.
	cache atomic.Pointer[map[string]string]
}

// A replacementPart is literal text, or the text of a group of the regular expression (group >= 0).
type replacementPart struct {
	literal string
	group   int
}

func newTopicRule(regex, replacement string) (rule *topicRule, regexErr, replacementErr error) {
	re, err := regexp.Compile(regex)
	if err != nil {
		return nil, fmt.Errorf("read regular expression: %w; look-around and back references are not supported", err), nil
	}
	whole, err := regexp.Compile(`\A(?:` + regex + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("read regular expression: %w", err), nil
	}
	parts, err := parseReplacement(replacement, re)
	if err != nil {
		return nil, nil, err
	}
	return &topicRule{regex: re, whole: whole, parts: parts}, nil, nil
}

// topic is the topic for a value.
func (t *topicRule) topic(value string) string {
	if known := t.cache.Load(); known != nil {
		if topic, ok := (*known)[value]; ok {
			return topic
		}
	}
	topic := t.compute(value)
	if len(value) <= maxCachedValue {
		t.remember(value, topic)
	}
	return topic
}

func (t *topicRule) compute(value string) string {
	topic := t.replace(value)
	if t.then != nil {
		topic = t.then.replace(topic)
	}
	return topic
}

func (t *topicRule) replace(value string) string {
	if !t.whole.MatchString(value) {
		return strings.Clone(value)
	}
	at := t.regex.FindStringSubmatchIndex(value)
	if at == nil {
		return strings.Clone(value)
	}
	var b strings.Builder
	b.WriteString(value[:at[0]])
	for _, part := range t.parts {
		if part.group < 0 {
			b.WriteString(part.literal)
			continue
		}
		if from, to := at[2*part.group], at[2*part.group+1]; from >= 0 {
			b.WriteString(value[from:to])
		}
	}
	b.WriteString(value[at[1]:])
	return b.String()
}

// remember keeps a topic. The value is copied, since it may be part of a large chunk that it would keep alive.
func (t *topicRule) remember(value, topic string) {
	for {
		old := t.cache.Load()
		grown := make(map[string]string)
		if old != nil {
			if len(*old) >= maxCachedTopics {
				return
			}
			grown = maps.Clone(*old)
		}
		grown[strings.Clone(value)] = topic
		if t.cache.CompareAndSwap(old, &grown) {
			return
		}
	}
}

// parseReplacement reads a replacement in Java's words: $1 and ${name} are groups, a backslash takes the next
// character as it is.
func parseReplacement(s string, re *regexp.Regexp) ([]replacementPart, error) {
	var parts []replacementPart
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, replacementPart{literal: literal.String(), group: -1})
			literal.Reset()
		}
	}
	for i := 0; i < len(s); {
		switch s[i] {
		case '\\':
			if i+1 == len(s) {
				return nil, errors.New(`ends in a backslash: write \\ for a backslash`)
			}
			literal.WriteByte(s[i+1])
			i += 2
		case '$':
			group, n, err := parseGroup(s[i+1:], re)
			if err != nil {
				return nil, err
			}
			flush()
			parts = append(parts, replacementPart{group: group})
			i += 1 + n
		default:
			literal.WriteByte(s[i])
			i++
		}
	}
	flush()
	return parts, nil
}

// parseGroup reads what follows a $, and returns the number of the group and how many bytes name it.
func parseGroup(s string, re *regexp.Regexp) (group, n int, err error) {
	if strings.HasPrefix(s, "$") {
		return 0, 0, errors.New(`has $$: here a single $ is enough, \$ is a literal one`)
	}
	if name, ok := strings.CutPrefix(s, "{"); ok {
		end := strings.IndexByte(name, '}')
		if end < 0 {
			return 0, 0, errors.New("has ${ without }")
		}
		name = name[:end]
		if group = re.SubexpIndex(name); group < 0 {
			return 0, 0, fmt.Errorf("names the group %q, which the regular expression does not have", name)
		}
		return group, end + 2, nil
	}
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, 0, errors.New(`has a $ that names no group: write $1, ${name}, or \$ for a literal one`)
	}
	// As in Java, further digits belong to the number only while there is such a group.
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		next := group*10 + int(s[n]-'0')
		if n > 0 && next > re.NumSubexp() {
			break
		}
		group = next
		n++
	}
	if group > re.NumSubexp() {
		return 0, 0, fmt.Errorf("names the group %d, but the regular expression has %d", group, re.NumSubexp())
	}
	return group, n, nil
}
