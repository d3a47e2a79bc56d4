package debezium

import (
	"net/url"
	"strings"
)

// mysqlURL writes the connection to MySQL or MariaDB. Its database is that of the first table, as far as that is known.
func (c *conversion) mysqlURL() {
	host := c.take("source.database.hostname")
	if host == nil {
		c.missing("source.database.hostname", "is missing: without it Debezium cannot connect; if the environment sets it, name the variable as in ${DATABASE_HOSTNAME}")
		return
	}
	keys, address := []*setting{host}, host.value
	if strings.Contains(address, ":") && !strings.HasPrefix(address, "[") && !strings.Contains(address, "${") { // IPv6
		address = "[" + address + "]"
	}
	if s := c.take("source.database.port"); s != nil {
		address, keys = address+":"+s.value, append(keys, s)
	}
	user, userKeys := c.userOf("source.database.")
	if user == "" {
		c.missing("source.database.user", "is missing: without it Debezium cannot connect; if the environment sets it, name the variable as in ${DATABASE_USER}")
	}
	keys = append(keys, userKeys...)
	c.out.note(1, keysOf(keys))
	decides("url", keys...)
	c.address = quoted("mysql://" + user + address + "/" + urlPart(c.firstDatabase()) + c.mysqlTLS())
	c.out.set(1, "url", c.address, "")
	c.out.comesFrom(keys...)
}

// userOf is user:password@ of two options, and those.
func (c *conversion) userOf(prefix string) (text string, from []*setting) {
	user := c.take(prefix + "user")
	if user == nil {
		return "", nil
	}
	text, from = urlPart(user.value), []*setting{user}
	if s := c.take(prefix + "password"); s != nil {
		text, from = text+":"+urlPart(s.value), append(from, s)
	}
	return text + "@", from
}

// urlPart escapes a text for a URL. Variables stay: what they hold is escaped when tailbox.yaml is read.
func urlPart(s string) string {
	var b strings.Builder
	last := 0
	escape := func(text string) { b.WriteString(strings.ReplaceAll(url.QueryEscape(text), "+", "%20")) }
	for _, at := range reference().FindAllStringIndex(s, -1) {
		escape(s[last:at[0]])
		name, byDefault, has := strings.Cut(s[at[0]:at[1]-1], ":-")
		if b.WriteString(name); has {
			b.WriteString(":-")
			escape(byDefault)
		}
		b.WriteString("}")
		last = at[1]
	}
	escape(s[last:])
	return b.String()
}

// firstDatabase is the database of the first table that is listed.
func (c *conversion) firstDatabase() string {
	for _, key := range []string{"source.table.include.list", "source.table.whitelist", "source.collection.include.list", "source.collection.whitelist"} {
		if s := c.settings[key]; s != nil {
			for _, pattern := range commas(s.value) {
				if name, ok := literal(pattern); ok {
					if database, _, ok := strings.Cut(name, "."); ok {
						return database
					}
				}
			}
		}
	}
	return ""
}

// keyStores refuses those of Java, for options that begin with database or mongodb. parameters are those of the URL that take PEM.
func (c *conversion) keyStores(prefix, parameters string) {
	for _, store := range []string{"keystore", "truststore"} {
		key := "source." + prefix + ".ssl." + store
		if s := c.settings[key]; s != nil && !s.used {
			if prefix == "database" && s.raw == "" {
				c.ignore("it names no key store", key)
				continue
			}
			c.take(key)
			c.problem(s, "is a key store of Java, which tailbox does not read: remove the options %s.ssl.keystore* and truststore*, and add the certificates in PEM "+
				"to source.url by hand: %s", prefix, parameters)
		}
	}
}

// mysqlTLS is the URL's query.
func (c *conversion) mysqlTLS() string {
	mode := c.take("source.database.ssl.mode")
	if mode != nil && strings.HasPrefix(strings.ToLower(mode.value), "disable") {
		c.ignore("TLS is not used", "source.database.ssl.keystore", "source.database.ssl.truststore")
	}
	c.keyStores("database", "tls-ca, tls-cert and tls-key")
	c.ignore("it is of a key store", "source.database.ssl.keystore.password", "source.database.ssl.truststore.password")
	if mode == nil {
		return "?tls=preferred"
	}
	query, ok := map[string]string{"disabled": "false", "preferred": "preferred", "required": "skip-verify", "verify_ca": "true", "verify_identity": "true",
		"disable": "false", "trust": "skip-verify", "verify-ca": "true", "verify-full": "true"}[strings.ToLower(mode.value)]
	if !ok {
		c.problem(mode, "must be disabled, preferred, required, verify_ca or verify_identity, or of MariaDB disable, trust, verify-ca or verify-full")
	}
	c.out.note(1, "tls="+query+": "+mode.key)
	decides("url", mode)
	return "?tls=" + query
}
