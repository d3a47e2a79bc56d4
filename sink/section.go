package sink

import "time"

// A Section is the part of a configuration that belongs to one sink, such as a mapping of a YAML file. A kind reads its keys through it, and so depends
// on no file format. Each method reads one key. If the value is wrong, the method records the problem and returns the default.
type Section interface {
	// Name returns the sink's name.
	Name() string
	// Has reports whether the key is there with a value.
	Has(key string) bool
	// Add records a problem with a key. It shows value, so value must not be secret.
	Add(key, value, reason string, allowed ...string)
	// Conceal makes texts secret that were read by a method which does not.
	Conceal(texts ...string)

	// String, Choice, Bool, Int and Size read one value. Choice allows the listed words only, Int the numbers from least to most, Size a number of bytes
	// of at least least.
	String(key, byDefault string) string
	Choice(key, byDefault string, allowed ...string) string
	Bool(key string, byDefault bool) bool
	Int(key string, byDefault, least, most int) int
	Size(key string, byDefault, least int64) int64
	// Positive reads a duration above 0s.
	Positive(key string, byDefault time.Duration) time.Duration
	// Path reads the path of a file, which may be relative to the configuration.
	Path(key string) string
	// Secret reads a text that is never shown, from the key or from the file that the key with _file names.
	Secret(key string) string
	// Host and Hosts read host:port, URL and URLs read URLs, which are secret because they may hold a password.
	Host(key string) string
	Hosts(key string) []string
	URL(key string) string
	URLs(key string) []string
	// UserInfo checks the user name and password of a URL that another method read from the key.
	UserInfo(key, url string)
	// Strings reads a list, Map a mapping of texts.
	Strings(key string) []string
	Map(key string) map[string]string
	// Within reads a section below this one. It does not call read if the key is absent.
	Within(key string, read func(Section))
}

// A Spec is a sink whose keys were read. The configuration of each kind implements it.
type Spec interface {
	// Validate returns all problems of the configuration. Each begins with the key it is about, as Invalid makes it.
	Validate() error
	// Open makes the sink.
	Open() (Sink, error)
}

// Exclusive is implemented by a Spec of which no two sinks may share something, such as a file.
type Exclusive interface {
	// Exclusive returns the key, its value as it was written, and a name that only the same thing has; "" if there is none.
	Exclusive() (key, value, thing string)
}

// Served is implemented by a Spec whose sink talks to one server.
type Served interface {
	// Server returns the server's name or address, and its port.
	Server() (host string, port int)
}

// ReadTLS reads the section tls. It returns nil if there is none.
func ReadTLS(s Section) (t *TLS) {
	s.Within("tls", func(k Section) {
		t = &TLS{CA: k.Path("ca"), Cert: k.Path("cert"), Key: k.Path("key"), ServerName: k.String("server_name", ""),
			InsecureSkipVerify: k.Bool("insecure_skip_verify", false)}
	})
	return t
}

// ReadPick reads where a part of what a sink sends comes from.
func ReadPick(s Section, key string) Pick {
	text := s.String(key, "")
	p, err := ParsePick(text)
	if err != nil {
		s.Add(key, text, err.Error()+"; allowed are "+PickForms)
	}
	return p
}
