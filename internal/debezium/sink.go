package debezium

import (
	"net"
	"strconv"
	"strings"
)

// sink writes the sink.
func (c *conversion) sink() {
	if !c.server {
		c.kafka()
		return
	}
	kind := c.take("sink.type")
	if kind == nil {
		c.missing("sink.type", "is missing: say where messages go, kafka, http or nats-jetstream")
		return
	}
	switch kind.value {
	case "kafka":
		c.kafka()
		c.ignore("Debezium's Kafka sink reads sink.kafka.producer.* alone, and does not know it", c.keys("sink.kafka.")...)
	case "http":
		c.oneOfAName()
		c.http()
	case "nats-jetstream":
		c.oneOfAName()
		c.nats()
	default:
		c.problem(kind, "this sink is not built into tailbox: choose kafka, http or nats-jetstream")
		c.ignore("it is of the sink that is refused", c.keys("sink."+kind.value+".")...)
		return
	}
	c.ignore(unheardOf, c.keys("sink."+kind.value+".")...) // http and nats have taken all that these sinks know
}

// toKafka reports whether messages go to Kafka, whose topics have no $ in their names.
func (c *conversion) toKafka() bool { return !c.server || c.settings["sink.type"].is("kafka") }

// keyless reports whether the sink is one of those whose messages have no key, in Debezium as in tailbox.
func (c *conversion) keyless() bool {
	return c.server && (c.settings["sink.type"].is("http") || c.settings["sink.type"].is("nats-jetstream"))
}

// oneOfAName refuses headers of one name, of which Debezium's sinks for HTTP and NATS send the last alone.
func (c *conversion) oneOfAName() {
	seen := map[string]bool{"id": true} // the router's own
	for _, header := range c.headers() {
		if seen[header.as] {
			c.problem(c.placements, "makes several headers %s, of which Debezium sends the last alone over this sink, and tailbox all: place one column under that name; id is the message's id already", header.as)
		}
		seen[header.as] = true
	}
}

// unknown tells what is left of options that begin so.
func (c *conversion) unknown(prefix, reason string) {
	for _, key := range c.keys(prefix) {
		c.problem(c.take(key), "%s", reason)
	}
}

// http writes an HTTP sink.
func (c *conversion) http() {
	c.out.section(0, "sinks", "")
	c.out.section(1, "http", "")
	c.out.set(2, "kind", "http", "", c.settings["sink.type"])
	if s := c.take("sink.http.url"); s != nil {
		c.out.set(2, "url", quoted(s.value), "", s)
		if strings.HasPrefix(s.value, "http://") && strings.Contains(s.value, "@") {
			c.allowPlaintext(s.value)
		}
	} else {
		c.missing("sink.http.url", "is missing: say where requests go")
	}
	if s := c.take("sink.http.batch.enabled"); s != nil && strings.EqualFold(s.value, "true") {
		c.out.set(2, "format", "array", "", s)
		size := c.text("sink.http.batch.max-size", "200")
		c.number("sink.http.batch.max-size", size.value)
		c.out.set(2, "max_batch", size.value, "", size)
	} else {
		c.out.set(2, "format", "single", "Debezium's default of debezium.sink.http.batch.enabled")
	}
	if s := c.take("sink.http.timeout.ms"); s != nil {
		c.number("sink.http.timeout.ms", s.value)
		c.out.set(2, "timeout", s.value+"ms", "", s)
	}
	for _, needed := range [][3]string{{"headers.prefix", "", "X-DEBEZIUM-"}, {"headers.encode.base64", "false", "true"}} {
		const reason = "changes the headers, which tailbox sends under their own names and in clear text: set it to %q once the endpoint takes them so"
		switch s := c.take("sink.http." + needed[0]); {
		case s == nil:
			c.missing("sink.http."+needed[0], "is missing, and its default, "+needed[2]+", "+reason, needed[1])
		case !strings.EqualFold(s.value, needed[1]):
			c.problem(s, reason, needed[1])
		default:
			c.out.ignored(s, "headers are sent so")
		}
	}
	if s := c.take("sink.http.authentication.type"); s != nil && s.value != "" {
		c.problem(s, "is not built into tailbox: use a token (sinks.http.bearer) or sinks.http.headers, by hand")
		c.ignore("it is of the authentication that is refused", c.keys("sink.http.authentication.")...)
	}
	c.ignore("no authentication.type asks for it", c.keys("sink.http.authentication.")...)
	c.out.set(2, "metadata_headers", "false", "no tailbox-* headers")
	c.ignore("what fails is retried by tailbox's own policy, which parks it in the end; see retry", "sink.http.retries", "sink.http.retry.interval.ms")
	c.ignore("there are no batches", "sink.http.batch.max-size")
}

// number refuses a value that is written as a number and is none.
func (c *conversion) number(key, value string) {
	if _, err := strconv.ParseUint(value, 10, 31); err != nil {
		c.problem(c.settings[key], "must be a whole number")
	}
}

// allowPlaintext allows credentials to go to servers without encryption, as Debezium sends them, if one of them is another machine.
func (c *conversion) allowPlaintext(servers ...string) {
	for _, server := range servers {
		if _, rest, ok := strings.Cut(server, "://"); ok {
			server = rest
		}
		server, _, _ = strings.Cut(server, "/")
		server = server[strings.LastIndexByte(server, '@')+1:]
		if host, _, err := net.SplitHostPort(server); err == nil {
			server = host
		}
		if ip := net.ParseIP(strings.Trim(server, "[]")); !strings.EqualFold(server, "localhost") && (ip == nil || !ip.IsLoopback()) {
			c.out.set(2, "allow_plaintext", "true", "as in Debezium, whoever listens on the network sees the credentials: use TLS, and remove this line")
			return
		}
	}
}
