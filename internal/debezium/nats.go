package debezium

import (
	"net/url"
	"slices"
	"strings"
)

// nats writes a NATS JetStream sink.
func (c *conversion) nats() {
	const prefix = "sink.nats-jetstream."
	c.out.section(0, "sinks", "")
	c.out.section(1, "nats", "")
	c.out.set(2, "kind", "nats", "", c.settings["sink.type"])
	c.natsServers(prefix)
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
	quotes := ""
	if format := c.settings["format.header"]; format == nil || format.is("json") {
		quotes = "; Debezium sends it in the quotes of JSON, so the stream keeps both if Debezium and tailbox send one message"
	}
	for _, header := range c.headers() {
		switch name := strings.ToLower(header.as); {
		case name == "nats-msg-id" && header.column == c.columnOf("table.field.event.id", "id"):
			c.out.set(2, "msg_id", "id", "the header "+header.as+", by which the stream drops duplicates"+quotes, c.placements)
		case name == "status", strings.HasPrefix(name, "nats-"):
			c.problem(c.placements, "places the header %s, which tells the server what to do, and which tailbox's NATS sink leaves out: take it out of this option; Nats-Msg-Id can hold the message's id", header.as)
		}
	}
	c.out.set(2, "metadata_headers", "false", "no tailbox-* headers: what reads the stream sees what Debezium sends, and Nats-Msg-Id")
	for _, name := range []string{"async.enabled", "async.timeout.ms", "sync.retries", "sync.retry.interval.ms", "sync.retry.max.interval.ms",
		"sync.retry.backoff.multiplier"} {
		c.ignore("each message waits for the stream's answer, and what fails is retried by tailbox's own policy; see retry", prefix+name)
	}
}

// natsServers writes the servers and who logs in. The user, the password or the token in a server's address count before the options.
func (c *conversion) natsServers(prefix string) {
	servers, user, password := c.take(prefix+"url"), c.take(prefix+"auth.user"), c.take(prefix+"auth.password")
	if servers == nil {
		c.missing(prefix+"url", "is missing: name the servers")
		return
	}
	var addresses, logins []string
	for _, server := range commas(servers.value) {
		scheme, rest, ok := strings.Cut(server, "://")
		if at := strings.LastIndexByte(masked(rest), '@'); ok && at >= 0 {
			logins, server = append(logins, rest[:at]), scheme+"://"+rest[at+1:]
		}
		addresses = append(addresses, server)
	}
	c.out.set(2, "servers", list(addresses), "", servers)
	if len(slices.Compact(slices.Clone(logins))) > 1 || len(logins) > 0 && len(logins) < len(addresses) {
		c.problem(servers, "has servers with different logins: give all of them the same, or put it into %sauth.user and auth.password", c.prefixed(prefix))
		return
	}
	login := map[string]*setting{"username": user, "password": password}
	if len(logins) > 0 {
		for _, s := range []*setting{user, password} {
			if s != nil {
				c.out.ignored(s, "what the servers' address says counts")
			}
		}
		of := func(text string) *setting { return &setting{key: servers.key, value: unescaped(text)} }
		if at := strings.IndexByte(masked(logins[0]), ':'); at >= 0 {
			login = map[string]*setting{"username": of(logins[0][:at]), "password": of(logins[0][at+1:])}
		} else {
			login = map[string]*setting{"token": of(logins[0])}
		}
	}
	for _, key := range []string{"username", "password", "token"} {
		if s := login[key]; s != nil && s.value != "" {
			c.out.set(2, key, quoted(s.value), "", s)
			if key != "username" {
				c.allowPlaintext(slices.DeleteFunc(addresses, func(s string) bool { return strings.HasPrefix(s, "tls://") })...)
			}
		}
	}
}

// masked is a text with other signs in place of its references, which may hold any.
func masked(text string) string {
	return reference().ReplaceAllStringFunc(text, func(ref string) string { return strings.Repeat("x", len(ref)) })
}

// unescaped is a part of a URL as it is meant. One with a reference stays.
func unescaped(part string) string {
	if plain, err := url.PathUnescape(part); err == nil && !reference().MatchString(part) {
		return plain
	}
	return part
}
