package debezium

import (
	"regexp"
	"strings"
)

// sink writes the sink.
func (c *conversion) sink() {
	if !c.server {
		c.kafka("source.producer.override.", "source.producer.")
		return
	}
	kind := c.take("sink.type")
	if kind == nil {
		c.missing("sink.type", "is missing: say where messages go, kafka, http or nats-jetstream")
		return
	}
	switch kind.value {
	case "kafka":
		c.kafka("sink.kafka.producer.")
	case "http":
		c.http()
	case "nats-jetstream":
		c.nats()
	default:
		c.problem(kind, "this sink is not built into tailbox: choose kafka, http or nats-jetstream")
	}
}

// kafka writes a Kafka sink from the options of a producer, which stand behind one of the prefixes; the first wins.
func (c *conversion) kafka(prefixes ...string) {
	get := func(name string) *setting {
		var found *setting
		for _, prefix := range prefixes {
			if s := c.take(prefix + name); s != nil && found == nil {
				found = s
			}
		}
		return found
	}
	c.out.section(0, "sinks", "")
	c.out.section(1, "kafka", "")
	c.out.set(2, "kind", "kafka", "")
	s := get("bootstrap.servers")
	if worker := c.connectBrokers(); s == nil {
		s = worker
	}
	if s != nil {
		c.out.set(2, "brokers", list(commas(s.value)), s.key)
	} else if c.server {
		c.missing("sink.kafka.producer.bootstrap.servers", "is missing: name the brokers")
	} else {
		c.out.set(2, "brokers", `["${KAFKA_BROKERS}"]`, "the worker's bootstrap.servers; name its properties file too, or set the variable")
	}
	if s := get("client.id"); s != nil {
		c.out.set(2, "client_id", quoted(s.value), s.key)
	}
	if s := get("compression.type"); s != nil {
		c.out.set(2, "compression", quoted(s.value), s.key)
	}
	for _, name := range []string{"key.serializer", "value.serializer"} {
		s := get(name)
		switch {
		case s == nil:
		case strings.HasSuffix(s.value, ".StringSerializer"), strings.HasSuffix(s.value, ".ByteArraySerializer"), strings.HasSuffix(s.value, ".ByteBufferSerializer"):
			c.out.ignored(s.key, "the bytes that the format makes are sent as they are")
		default:
			c.problem(s, "this serializer is not built into tailbox: use org.apache.kafka.common.serialization.StringSerializer")
		}
	}
	c.security(get)
	c.out.set(2, "metadata_headers", "false", "no tailbox-* headers: what reads the topics sees what Debezium sends")
	for _, name := range []string{"partitioner.class", "interceptor.classes", "transactional.id"} {
		if s := get(name); s != nil && s.value != "" {
			c.problem(s, "would change what is sent or where, and is not built into tailbox: remove it")
		}
	}
	for _, name := range []string{"acks", "enable.idempotence", "retries", "retry.backoff.ms", "retry.backoff.max.ms", "max.in.flight.requests.per.connection", "linger.ms",
		"batch.size", "buffer.memory", "max.block.ms", "max.request.size", "request.timeout.ms", "delivery.timeout.ms", "metadata.max.age.ms",
		"connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "send.buffer.bytes", "receive.buffer.bytes", "client.dns.lookup",
		"socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms", "metrics.recording.level", "metric.reporters",
		"metrics.num.samples", "metrics.sample.window.ms"} {
		if s := get(name); s != nil {
			c.out.ignored(s.key, "each message waits for all replicas and is retried in order; batches, connections and times are tailbox's own")
		}
	}
	if s := c.take("sink.kafka.wait.message.delivery.timeout.ms"); s != nil {
		c.out.ignored(s.key, "the sink's own timeout counts")
	}
}

// connectBrokers is the one option of the worker's own clients that counts for its producers too; nil in Debezium Server.
func (c *conversion) connectBrokers() *setting {
	if c.server {
		return nil
	}
	return c.take("source.bootstrap.servers")
}

var jaasOption = regexp.MustCompile(`(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)`)

// security writes tls and sasl of a Kafka client's options.
func (c *conversion) security(get func(string) *setting) {
	protocol := get("security.protocol")
	mechanism, jaas := get("sasl.mechanism"), get("sasl.jaas.config")
	secure := ""
	if protocol != nil {
		secure = strings.ToUpper(protocol.value)
	}
	if strings.HasSuffix(secure, "SSL") {
		c.tls(get, protocol)
	}
	if !strings.HasPrefix(secure, "SASL") {
		return
	}
	name := "GSSAPI"
	if mechanism != nil {
		name = strings.ToUpper(mechanism.value)
	}
	switch name {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		at := mechanism
		if at == nil {
			at = protocol
		}
		c.problem(at, "the mechanism %s is not built into tailbox: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
		return
	}
	if jaas == nil {
		c.problem(protocol, "needs sasl.jaas.config beside it, with username and password")
		return
	}
	c.out.section(2, "sasl", jaas.key)
	c.out.set(3, "mechanism", strings.ToLower(name), mechanism.key)
	found := jaasOption.FindAllStringSubmatch(jaas.value, -1)
	if len(found) != 2 { // a variable that is more than one of the two
		if jaas.value, jaas.fault = c.resolve(jaas.raw, true); jaas.fault != "" {
			c.tell(jaas)
			return
		}
		found = jaasOption.FindAllStringSubmatch(jaas.value, -1)
	}
	if len(found) != 2 || found[0][1] == found[1][1] {
		c.problem(jaas, "must hold username and password once each, as in ScramLoginModule required username=\"relay\" password=\"…\";")
		return
	}
	for _, option := range found {
		value := option[2]
		if q := value[0]; q == '"' || q == '\'' {
			value = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`).Replace(value[1 : len(value)-1])
		}
		c.out.set(3, option[1], quoted(value), "")
	}
}

func (c *conversion) tls(get func(string) *setting, protocol *setting) {
	c.out.section(2, "tls", protocol.key)
	lines := 0
	for _, option := range [][2]string{{"ssl.truststore.location", "ca"}, {"ssl.keystore.location", "cert"}} {
		store := get(option[0])
		kind := get(strings.Replace(option[0], ".location", ".type", 1))
		if password := get(strings.Replace(option[0], ".location", ".password", 1)); password != nil {
			c.out.ignored(password.key, "PEM files have none here")
		}
		if store == nil {
			continue
		}
		if kind == nil || !strings.EqualFold(kind.value, "PEM") {
			c.problem(store, "is a Java keystore, and tailbox reads PEM: convert it (keytool -exportcert -rfc), name the file here, and set %s=PEM",
				strings.Replace(store.key, ".location", ".type", 1))
			continue
		}
		c.out.set(3, option[1], quoted(store.value), store.key)
		if lines++; option[1] == "cert" {
			c.out.set(3, "key", quoted(store.value), store.key)
		}
	}
	if s := get("ssl.endpoint.identification.algorithm"); s != nil && s.value == "" {
		c.problem(s, "would let any server answer: use a certificate with the broker's name, or set tls.server_name by hand")
	}
	if lines == 0 {
		c.out.body[len(c.out.body)-1] = strings.Replace(c.out.body[len(c.out.body)-1], "tls:", "tls: {}", 1)
	}
}

// http writes an HTTP sink.
func (c *conversion) http() {
	c.out.section(0, "sinks", "")
	c.out.section(1, "http", "")
	c.out.set(2, "kind", "http", "debezium.sink.type")
	if s := c.take("sink.http.url"); s != nil {
		c.out.set(2, "url", quoted(s.value), s.key)
	} else {
		c.missing("sink.http.url", "is missing: say where requests go")
	}
	if s := c.take("sink.http.batch.enabled"); s != nil && strings.EqualFold(s.value, "true") {
		c.out.set(2, "format", "array", s.key)
		size, from := c.text("sink.http.batch.max-size", "200")
		c.out.set(2, "max_batch", size, from)
	} else {
		c.out.set(2, "format", "single", "Debezium's default of debezium.sink.http.batch.enabled")
	}
	if s := c.take("sink.http.timeout.ms"); s != nil {
		c.out.set(2, "timeout", s.value+"ms", s.key)
	}
	for _, needed := range [][3]string{{"headers.prefix", "", "X-DEBEZIUM-"}, {"headers.encode.base64", "false", "true"}} {
		const reason = "changes the headers, which tailbox sends under their own names and in clear text: set it to %q once the endpoint takes them so"
		switch s := c.take("sink.http." + needed[0]); {
		case s == nil:
			c.missing("sink.http."+needed[0], "is missing, and its default, "+needed[2]+", "+reason, needed[1])
		case !strings.EqualFold(s.value, needed[1]):
			c.problem(s, reason, needed[1])
		default:
			c.out.ignored(s.key, "headers are sent so")
		}
	}
	if s := c.take("sink.http.authentication.type"); s != nil && s.value != "" {
		c.problem(s, "is not built into tailbox: use a token (sinks.http.bearer) or sinks.http.headers, by hand")
	}
	c.out.set(2, "metadata_headers", "false", "no tailbox-* headers")
	for _, name := range []string{"sink.http.retries", "sink.http.retry.interval.ms", "sink.http.batch.max-size"} {
		if s := c.take(name); s != nil {
			c.out.ignored(s.key, "what fails is retried by tailbox's own policy, which parks it in the end; see retry")
		}
	}
}
