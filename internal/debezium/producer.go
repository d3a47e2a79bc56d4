package debezium

import (
	"slices"
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// classOfProducer is an option that names a class of a producer. The producer hands all its options on to it.
var classOfProducer = lazyregexp.New(`(?:\.serializer|partitioner\.class|interceptor\.classes)$`)

// A producer is the options of a Kafka producer, which stand behind one of several prefixes; the first wins.
type producer struct {
	*conversion
	prefixes []string
	// plain: the password goes over the network as it is.
	plain bool
}

// get returns an option and counts it as understood; nil if it is absent.
func (p *producer) get(name string) *setting {
	var found *setting
	for _, prefix := range p.prefixes {
		switch s := p.settings[prefix+name]; {
		case s == nil:
		case found == nil:
			found = p.take(prefix + name)
		default:
			p.conversion.ignore("the connector's own option counts before it", prefix+name)
		}
	}
	return found
}

// ignore lists options that have no effect.
func (p *producer) ignore(why string, names ...string) {
	for _, prefix := range p.prefixes {
		for _, name := range names {
			p.conversion.ignore(why, prefix+name)
		}
	}
}

// ignoreAll lists what is left of options whose names begin so.
func (p *producer) ignoreAll(why, begin string) {
	for _, prefix := range p.prefixes {
		p.conversion.ignore(why, p.keys(prefix+begin)...)
	}
}

// refuse tells options that have no place here, unless their value is one that changes nothing.
func (p *producer) refuse(reason string, harmless []string, names ...string) {
	for _, name := range names {
		s := p.get(name)
		if s == nil {
			continue
		}
		if s.value == "" || containsFold(harmless, s.value) {
			p.out.ignored(s, "it is at its default")
			continue
		}
		p.problem(s, "%s", reason)
	}
}

func containsFold(all []string, s string) bool {
	for _, one := range all {
		if strings.EqualFold(one, s) {
			return true
		}
	}
	return false
}

// kafka writes a Kafka sink.
func (c *conversion) kafka() {
	p := &producer{conversion: c, prefixes: c.producerPrefixes()}
	c.out.section(0, "sinks", "")
	c.out.section(1, "kafka", "")
	c.out.set(2, "kind", "kafka", "")
	s := p.get("bootstrap.servers")
	if worker := c.connectBrokers(); s == nil {
		s = worker
	}
	if s != nil {
		c.out.set(2, "brokers", list(commas(s.value)), "", s)
	} else if c.server {
		c.missing("sink.kafka.producer.bootstrap.servers", "is missing: name the brokers")
	} else {
		c.out.set(2, "brokers", `["${KAFKA_BROKERS}"]`, "the worker's bootstrap.servers; name its properties file too, or set the variable")
	}
	if s := p.get("client.id"); s != nil {
		c.out.set(2, "client_id", quoted(s.value), "", s)
	}
	if s := p.get("compression.type"); s != nil {
		c.out.set(2, "compression", quoted(s.value), "", s)
	}
	p.serializers()
	p.security()
	if p.plain {
		if s == nil {
			s = &setting{value: "${KAFKA_BROKERS}"}
		}
		c.allowPlaintext(commas(s.value)...)
	}
	c.out.set(2, "metadata_headers", "false", "no tailbox-* headers: what reads the topics sees what Debezium sends")
	p.others()
	c.ignore("the sink's own timeout counts", "sink.kafka.wait.message.delivery.timeout.ms")
}

// connectBrokers is the one option of the worker's own clients that counts for its producers too; nil in Debezium Server.
func (c *conversion) connectBrokers() *setting {
	if c.server {
		return nil
	}
	return c.take("source.bootstrap.servers")
}

func (p *producer) serializers() {
	for _, name := range []string{"key.serializer", "value.serializer"} {
		s := p.get(name)
		switch {
		case s == nil:
		case strings.HasSuffix(s.value, ".StringSerializer"), strings.HasSuffix(s.value, ".ByteArraySerializer"), strings.HasSuffix(s.value, ".ByteBufferSerializer"):
			p.out.ignored(s, "the bytes that the format makes are sent as they are")
		default:
			p.problem(s, "this serializer is not built into tailbox: use org.apache.kafka.common.serialization.StringSerializer")
		}
	}
}

// others lists the options that change neither what is sent nor where, tells those that do, and those that nobody knows.
func (p *producer) others() {
	p.refuse("would send messages of one key to any partition, so that nobody reads them in order, and is not built into tailbox: set it to false", []string{"false"},
		"partitioner.ignore.keys")
	p.refuse("would change what is sent or where, and is not built into tailbox: remove it", []string{"org.apache.kafka.clients.producer.internals.DefaultPartitioner"},
		"partitioner.class", "interceptor.classes", "transactional.id")
	for _, o := range harmlessProducerOptions() {
		p.ignore(o.why, o.names...)
	}
	p.unknownAll("")
}

// unknownAll tells what is left of options whose names begin so, and lists those that a Kafka producer does not know.
func (p *producer) unknownAll(begin string) {
	why := unheardOf
	if slices.ContainsFunc(p.problems, func(told *Problem) bool { return classOfProducer().MatchString(told.Key) }) {
		why = "it may be an option of the class that is refused"
	}
	for _, prefix := range p.prefixes {
		for _, key := range p.keys(prefix + begin) {
			if !listed("producer." + strings.TrimPrefix(key, prefix)) {
				p.conversion.ignore(why, key)
			}
		}
		p.unknown(prefix+begin, "is no option of a producer that is known to change nothing: remove it, if the messages do not depend on it")
	}
}

// A harmlessOption is one, or several, of a Kafka producer that change neither what is sent nor where.
type harmlessOption struct {
	why   string
	names []string
}

func harmlessProducerOptions() []harmlessOption {
	return []harmlessOption{
		{"each message waits for all in-sync replicas, and is retried in order", []string{"acks", "enable.idempotence", "retries", "retry.backoff.ms", "retry.backoff.max.ms",
			"max.in.flight.requests.per.connection", "delivery.timeout.ms"}},
		{"batches are made of what waits; the topic says how large they may be", []string{"linger.ms", "batch.size", "buffer.memory", "max.block.ms", "max.request.size"}},
		{"connections and their times are tailbox's own", []string{"request.timeout.ms", "metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.strategy",
			"metadata.recovery.rebootstrap.trigger.ms", "connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "send.buffer.bytes", "receive.buffer.bytes",
			"client.dns.lookup", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"}},
		{"see docs/metrics.md", []string{"metrics.recording.level", "metric.reporters", "metrics.num.samples", "metrics.sample.window.ms", "enable.metrics.push", "auto.include.jmx.reporter"}},
		{"what is compressed says the same at each level", []string{"compression.gzip.level", "compression.lz4.level", "compression.zstd.level"}},
		{"it places messages without a key, which may go anywhere", []string{"partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"}},
		{"there are no transactions", []string{"transaction.timeout.ms", "transaction.two.phase.commit.enable"}},
	}
}
