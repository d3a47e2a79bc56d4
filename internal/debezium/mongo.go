package debezium

import (
	"slices"
	"strings"
)

// mongoURL writes the connection to MongoDB. The collections tailbox_* are made in the database of the first collection.
func (c *conversion) mongoURL() {
	uri, from := "", c.take("source.mongodb.connection.string")
	hosts := c.take("source.mongodb.hosts") // of Debezium 1 and 2.0
	switch {
	case from != nil:
		uri = from.value
	case hosts != nil:
		from = hosts
		set, servers, ok := strings.Cut(hosts.value, "/")
		if !ok {
			set, servers = "", hosts.value
		}
		if uri = "mongodb://" + servers + "/"; set != "" {
			uri += "?replicaSet=" + urlPart(set)
		}
	default:
		c.missing("source.mongodb.connection.string", "is missing: without it Debezium cannot connect; if the environment sets it, name the variable as in ${MONGODB_URI}")
		return
	}
	user, keys := c.userOf("source.mongodb.")
	var query []string
	if user != "" {
		query = append(query, "authSource="+urlPart(c.text("source.mongodb.authsource", "admin").value))
	}
	c.ignore("no user is named", "source.mongodb.authsource")
	if s := c.take("source.mongodb.ssl.enabled"); s != nil && strings.EqualFold(s.value, "true") {
		query, keys = append(query, "tls=true"), append(keys, s)
	}
	if s := c.take("source.mongodb.ssl.invalid.hostname.allowed"); s != nil && strings.EqualFold(s.value, "true") {
		c.problem(s, "is not built into tailbox: use certificates with the servers' names; or remove it and add tlsInsecure=true to source.url by hand, which trusts every certificate")
	}
	c.keyStores("mongodb", "tlsCAFile and tlsCertificateKeyFile")
	scheme, rest, ok := strings.Cut(uri, "://")
	ok = ok && !strings.HasPrefix(uri, "${")
	switch {
	case user == "" && len(query) == 0:
	case !ok:
		c.problem(from, "its address cannot be told from here, and the other options of the connection have to stand in it: write the user, the password and tls=true into it, and "+
			"remove those options")
	default:
		servers, options, _ := strings.Cut(rest, "?")
		query = append(notAgain(options, query), query...)
		servers, database, _ := strings.Cut(servers, "/")
		if user != "" { // that of the options counts
			servers = user + servers[strings.LastIndexByte(servers, '@')+1:]
		}
		if uri = scheme + "://" + servers + "/" + database; len(query) > 0 {
			uri += "?" + strings.Join(query, "&")
		}
	}
	keys = append([]*setting{from}, keys...)
	c.out.note(1, keysOf(keys))
	decides("url", keys...)
	c.address = quoted(uri)
	c.out.set(1, "url", c.address, "")
	c.out.comesFrom(keys...)
	if database := c.firstDatabase(); database != "" {
		c.out.set(1, "schema", quoted(database), "the database of the collections tailbox_*")
	}
}

// notAgain are the options of a URL but for those that others set again, which count.
func notAgain(options string, others []string) (kept []string) {
	for option := range strings.SplitSeq(options, "&") {
		name, _, _ := strings.Cut(strings.Replace(strings.ToLower(option), "ssl=", "tls=", 1), "=")
		if option != "" && !slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(strings.ToLower(other), name+"=") }) {
			kept = append(kept, option)
		}
	}
	return kept
}
