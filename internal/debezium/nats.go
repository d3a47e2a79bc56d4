package debezium

import (
	"slices"
	"strings"
)

// nats writes a NATS JetStream sink.
func (c *conversion) nats() {
	const prefix = "sink.nats-jetstream."
	c.out.section(0, "sinks", "")
	c.out.section(1, "nats", "")
	c.out.set(2, "kind", "nats", "", c.settings["sink.type"])
	servers := c.take(prefix + "url")
	if servers != nil {
		c.out.set(2, "servers", list(commas(servers.value)), "", servers)
	} else {
		c.missing(prefix+"url", "is missing: name the servers")
	}
	user, password := c.take(prefix+"auth.user"), c.take(prefix+"auth.password")
	if user != nil && user.value != "" {
		c.out.set(2, "username", quoted(user.value), "", user)
	}
	if password != nil && password.value != "" {
		c.out.set(2, "password", quoted(password.value), "", password)
		if servers != nil {
			c.allowPlaintext(slices.DeleteFunc(commas(servers.value), func(s string) bool { return strings.HasPrefix(s, "tls://") })...)
		}
	}
	for _, name := range []string{"auth.jwt", "auth.seed"} {
		if s := c.take(prefix + name); s != nil && s.value != "" {
			c.problem(s, "stands by itself: put JWT and seed into a .creds file, name it in sinks.nats.creds_file, and remove this option")
		}
	}
	for _, name := range []string{"auth.tls.keystore", "auth.tls.keystore.password", "auth.tls.password"} {
		if s := c.take(prefix + name); s != nil && s.value != "" {
			c.problem(s, "is a Java key store: write its certificates as PEM files, name them in sinks.nats.tls, and remove this option")
		}
	}
	if s := c.take(prefix + "create-stream"); s != nil && strings.EqualFold(s.value, "true") {
		c.out.ignored(s, "tailbox makes no streams: the one that Debezium made is used as it is; tailbox check says when a subject has none")
	} else if s != nil {
		c.out.ignored(s, "tailbox makes no streams either")
	}
	for _, name := range []string{"stream-name", "subjects", "storage"} {
		c.ignore("it only says how to make a stream", prefix+name)
	}
	for _, header := range c.headers() {
		switch name := strings.ToLower(header[1]); {
		case name == "nats-msg-id" && header[0] == c.columnOf("table.field.event.id", "id"):
			c.out.set(2, "msg_id", "id", "the header "+header[1]+", by which the stream drops duplicates", c.placements)
		case name == "status", strings.HasPrefix(name, "nats-"):
			c.problem(c.placements, "places the header %s, which tells the server what to do, and which tailbox's NATS sink leaves out: take it out of this option; Nats-Msg-Id can hold the message's id", header[1])
		}
	}
	c.out.set(2, "metadata_headers", "false", "no tailbox-* headers: what reads the stream sees what Debezium sends, and Nats-Msg-Id")
	for _, name := range []string{"async.enabled", "async.timeout.ms", "sync.retries", "sync.retry.interval.ms", "sync.retry.max.interval.ms",
		"sync.retry.backoff.multiplier"} {
		c.ignore("each message waits for the stream's answer, and what fails is retried by tailbox's own policy; see retry", prefix+name)
	}
}
