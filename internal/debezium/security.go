package debezium

import (
	"strings"

	"github.com/tailbox/tailbox/internal/lazyregexp"
)

// security writes tls and sasl of a producer.
func (p *producer) security() {
	protocol := p.get("security.protocol")
	secure := "PLAINTEXT"
	if protocol != nil && protocol.value != "" {
		secure = strings.ToUpper(protocol.value)
	}
	switch secure {
	case "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		p.problem(protocol, "must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
	}
	p.refuse("would change how the connection is secured, and is not built into tailbox: remove it", nil, "security.providers")
	if strings.HasSuffix(secure, "SSL") {
		p.tls(protocol)
	}
	p.ignoreAll("security.protocol does not ask for TLS", "ssl.")
	if strings.HasPrefix(secure, "SASL_") {
		p.sasl(protocol)
	}
	p.ignoreAll("security.protocol does not ask for SASL", "sasl.")
}

var jaasOption = lazyregexp.New(`(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)`)

func (p *producer) sasl(protocol *setting) {
	mechanism, jaas := p.get("sasl.mechanism"), p.get("sasl.jaas.config")
	name, at := "GSSAPI", protocol
	if mechanism != nil {
		name, at = strings.ToUpper(mechanism.value), mechanism
	}
	switch name {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		p.problem(at, "the mechanism %s is not built into tailbox: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", name)
		p.ignoreAll("it is of a mechanism that is not built in", "sasl.")
		return
	}
	p.refuse("would change how the relay logs in, and is not built into tailbox: remove it", nil,
		"sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class")
	for _, others := range []string{"sasl.kerberos.", "sasl.oauthbearer.", "sasl.login."} {
		p.ignoreAll("it is of another mechanism", others)
	}
	p.unknownAll("sasl.")
	if jaas == nil {
		p.problem(protocol, "needs sasl.jaas.config beside it, with username and password")
		return
	}
	p.out.section(2, "sasl", jaas.key)
	p.out.set(3, "mechanism", strings.ToLower(name), "", mechanism)
	p.plain = name == "PLAIN" && protocol != nil && strings.EqualFold(protocol.value, "SASL_PLAINTEXT")
	p.login(jaas)
}

// login writes username and password of a JAAS configuration.
func (p *producer) login(jaas *setting) {
	found := jaasOption().FindAllStringSubmatch(jaas.value, -1)
	if len(found) != 2 { // a variable that is more than one of the two
		if jaas.value, jaas.fault = p.resolve("sasl.jaas.config", jaas.raw, true); jaas.fault != "" {
			p.tell(jaas)
			return
		}
		found = jaasOption().FindAllStringSubmatch(jaas.value, -1)
	}
	if len(found) != 2 || found[0][1] == found[1][1] {
		p.problem(jaas, "must hold username and password once each, as in ScramLoginModule required username=\"relay\" password=\"…\";")
		return
	}
	for _, option := range found {
		value := option[2]
		if q := value[0]; q == '"' || q == '\'' {
			value = strings.NewReplacer(`\"`, `"`, `\'`, `'`, `\\`, `\`).Replace(value[1 : len(value)-1])
		}
		p.out.set(3, option[1], quoted(value), "")
	}
}

func (p *producer) tls(protocol *setting) {
	p.out.section(2, "tls", protocol.key)
	section := len(p.out.body)
	trust, key := p.store("ssl.truststore"), p.store("ssl.keystore")
	if trust != nil {
		p.out.set(3, "ca", quoted(trust.value), "", trust)
	}
	if key != nil {
		p.out.set(3, "cert", quoted(key.value), "", key)
		p.out.set(3, "key", quoted(key.value), "", key)
	}
	if len(p.out.body) == section {
		p.out.body[section-1] = strings.Replace(p.out.body[section-1], "tls:", "tls: {}", 1)
	}
	const inline = "stands by itself, and tailbox reads PEM files: write it to one, name that in %s.location with %s.type=PEM, and remove this option"
	p.refuse(strings.ReplaceAll(inline, "%s", "ssl.truststore"), nil, "ssl.truststore.certificates")
	p.refuse(strings.ReplaceAll(inline, "%s", "ssl.keystore"), nil, "ssl.keystore.certificate.chain", "ssl.keystore.key")
	p.refuse("is for a key that is encrypted, which tailbox does not read: decrypt it (openssl pkey -in key.pem -out plain.pem) into a file that only the relay may read, and remove this option",
		nil, "ssl.key.password")
	if s := p.get("ssl.endpoint.identification.algorithm"); s != nil && s.value == "" {
		p.problem(s, "would let any server answer: use a certificate with the broker's name, or set tls.server_name by hand")
	} else if s != nil {
		p.out.ignored(s, "a server's certificate must have its name")
	}
	for _, name := range []string{"ssl.protocol", "ssl.enabled.protocols"} {
		p.versions(name)
	}
	p.refuse("would change how the connection is secured, and is not built into tailbox: let the brokers offer what may be used, and remove it", nil,
		"ssl.cipher.suites", "ssl.engine.factory.class")
	p.ignore("it is about Java", "ssl.provider", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm", "ssl.secure.random.implementation")
	p.unknownAll("ssl.")
}

// store is the PEM file of a truststore or keystore; nil if there is none.
func (p *producer) store(name string) *setting {
	location, kind := p.get(name+".location"), p.get(name+".type")
	p.ignore("PEM files have none here", name+".password")
	switch {
	case location == nil && kind != nil:
		p.out.ignored(kind, "there is no "+name+".location")
		return nil
	case location == nil:
		return nil
	case kind == nil || !strings.EqualFold(kind.value, "PEM"):
		p.problem(location, "is a Java keystore, and tailbox reads PEM: convert it (keytool -exportcert -rfc), name the file here, and set %s=PEM",
			strings.TrimSuffix(location.key, "location")+"type")
		return nil
	}
	return location
}

// versions checks that versions of TLS are those that are negotiated here. ssl.protocol is the highest, the other a list.
func (p *producer) versions(name string) {
	s := p.get(name)
	if s == nil {
		return
	}
	versions := commas(s.value)
	for _, v := range versions {
		if !containsFold([]string{"TLS", "TLSv1.2", "TLSv1.3"}, v) {
			versions = nil
			break
		}
	}
	if len(versions) == 0 && s.value != "" || name == "ssl.enabled.protocols" && len(versions) == 1 && strings.EqualFold(versions[0], "TLSv1.3") {
		p.problem(s, "tailbox speaks TLS 1.2 and TLS 1.3, the newest that the broker has: let the brokers offer what may be used, and remove this option")
		return
	}
	p.out.ignored(s, "the newest of TLS 1.2 and 1.3 that the broker has is spoken")
}
