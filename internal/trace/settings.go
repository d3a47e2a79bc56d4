package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings say where spans go, and which.
type Settings struct {
	url      string
	headers  http.Header
	tls      *tls.Config
	gzip     bool
	sampler  sampler
	resource []attribute
	// timeout bounds a request, and exportTimeout a batch with its retries. delay is how long spans wait for others.
	timeout, exportTimeout, delay time.Duration
	// most is how many spans may wait, and batch how many go into one request.
	most, batch int
}

// Endpoint returns where spans are sent, without what may be secret in it.
func (s *Settings) Endpoint() string {
	u, err := url.Parse(s.url)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

const (
	general  = "OTEL_EXPORTER_OTLP_"
	specific = "OTEL_EXPORTER_OTLP_TRACES_"
	// mostQueue bounds the memory of the spans that wait, at about 1 KiB each.
	mostQueue = 20_000
)

var (
	headerName  = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")
	headerValue = regexp.MustCompile(`^[\t\x20-\x7e\x80-\xff]*$`)
)

// Read reads the standard environment. It returns nil if tracing is off: without OTEL_EXPORTER_OTLP_ENDPOINT or its twin for traces nothing is traced. An error
// holds all that is wrong, and never a value that may be secret.
func Read(env func(string) (string, bool), version string) (*Settings, error) {
	e := &environment{env: env}
	if e.flag("OTEL_SDK_DISABLED") || e.one("OTEL_TRACES_EXPORTER", "otlp", "otlp", "none") == "none" || e.get(specific+"ENDPOINT")+e.get(general+"ENDPOINT") == "" {
		return nil, errors.Join(e.errs...)
	}
	e.protocol()
	s := &Settings{url: e.endpoint(), headers: e.headers(), tls: e.tls(), sampler: readSampler(e)}
	s.gzip = e.one(e.either("COMPRESSION"), "none", "none", "gzip") == "gzip"
	s.timeout = e.milliseconds(e.either("TIMEOUT"), 10*time.Second)
	s.exportTimeout = e.milliseconds("OTEL_BSP_EXPORT_TIMEOUT", 30*time.Second)
	s.delay = e.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second)
	s.most = e.count("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
	s.batch = min(s.most, 512)
	if e.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") != "" {
		if s.batch = e.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", s.batch); s.batch > s.most {
			e.wrong("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", strconv.Itoa(s.batch), fmt.Sprintf("must not be above OTEL_BSP_MAX_QUEUE_SIZE, which is %d", s.most))
		}
	}
	s.resource = e.resource(version)
	if err := errors.Join(e.errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// An environment reads variables, and collects what is wrong with them. As the standard asks for, an empty one counts as not set.
type environment struct {
	env  func(string) (string, bool)
	errs []error
}

func (e *environment) get(name string) string {
	text, _ := e.env(name)
	return strings.TrimSpace(text)
}

// wrong notes what is wrong with a variable. value is "" if it may be secret.
func (e *environment) wrong(name, value, fix string) {
	if value != "" {
		name += fmt.Sprintf(" %q", value)
	}
	e.errs = append(e.errs, fmt.Errorf("%s: %s", name, fix))
}

// either returns the variable that counts: that for traces before that for all signals.
func (e *environment) either(name string) string {
	if e.get(specific+name) != "" {
		return specific + name
	}
	return general + name
}

func (e *environment) one(name, preset string, allowed ...string) string {
	text := cmp.Or(e.get(name), preset)
	if !slices.Contains(allowed, text) {
		e.wrong(name, text, "set it to "+strings.Join(allowed, " or ")+", or remove it")
		return preset
	}
	return text
}

func (e *environment) flag(name string) bool {
	return e.one(name, "false", "true", "false", "TRUE", "FALSE", "True", "False")[0]|0x20 == 't'
}

func (e *environment) count(name string, preset int) int {
	text := e.get(name)
	if text == "" {
		return preset
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostQueue {
		e.wrong(name, text, fmt.Sprintf("must be a number from 1 to %d", mostQueue))
		return preset
	}
	return n
}

func (e *environment) milliseconds(name string, preset time.Duration) time.Duration {
	text := e.get(name)
	if text == "" {
		return preset
	}
	n, err := strconv.Atoi(text)
	if d := time.Duration(n) * time.Millisecond; err == nil && n > 0 && d <= time.Hour {
		return d
	}
	e.wrong(name, text, "must be a number of milliseconds from 1 to 3600000, such as 5000")
	return preset
}

// protocol refuses those that tailbox does not speak.
func (e *environment) protocol() {
	const spoken = "http/protobuf"
	name := e.either("PROTOCOL")
	if text := cmp.Or(e.get(name), spoken); text != spoken {
		e.wrong(name, text, "tailbox speaks only "+spoken+": set it to "+spoken+" or remove it, and name the collector's port for that, usually 4318, in "+e.either("ENDPOINT"))
	}
}

// endpoint returns the address of traces: that for traces stands as it is, the general one is where all signals have their paths.
func (e *environment) endpoint() string {
	name := e.either("ENDPOINT")
	u, err := url.Parse(e.get(name))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		e.wrong(name, "", "must be a URL that begins with http:// or https://, such as http://localhost:4318")
		return ""
	case u.User != nil:
		e.wrong(name, "", "must hold no user and password: put them into "+general+"HEADERS, as authorization=Basic%20…")
		return ""
	case name == general+"ENDPOINT":
		u = u.JoinPath("v1/traces")
	case u.Path == "":
		u.Path = "/"
	}
	return u.String()
}

// pairs reads key=value,key=value, with values in percent encoding.
func (e *environment) pairs(name string) map[string]string {
	pairs := map[string]string{}
	for one := range strings.SplitSeq(e.get(name), ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		key, value, ok := strings.Cut(one, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			e.wrong(name, "", "must be key=value pairs with commas between them; write a comma in a value as %2C, and a percent sign as %25")
			return nil
		}
		pairs[key] = value
	}
	return pairs
}

func (e *environment) headers() http.Header {
	name := e.either("HEADERS")
	headers := http.Header{}
	for key, value := range e.pairs(name) {
		if !headerName.MatchString(key) || !headerValue.MatchString(value) {
			e.wrong(name, "", "holds what no HTTP header can: use letters, digits and - in names, and no line breaks in values")
			continue
		}
		headers.Set(key, value)
	}
	return headers
}

// resource says what sends the spans.
func (e *environment) resource(version string) []attribute {
	pairs := e.pairs("OTEL_RESOURCE_ATTRIBUTES")
	all := map[string]string{"service.name": "tailbox", "service.version": version}
	maps.Copy(all, pairs)
	if name := e.get("OTEL_SERVICE_NAME"); name != "" {
		all["service.name"] = name
	}
	var list []attribute
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, attribute{key, all[key]})
	}
	return list
}

// tls reads certificates; nil means the system's.
func (e *environment) tls() *tls.Config {
	ca, cert, key := e.either("CERTIFICATE"), e.either("CLIENT_CERTIFICATE"), e.either("CLIENT_KEY")
	if e.get(ca)+e.get(cert)+e.get(key) == "" {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := e.get(ca); file != "" {
		pem, err := os.ReadFile(file)
		c.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			e.wrong(ca, file, "cannot be read: "+err.Error())
		case !c.RootCAs.AppendCertsFromPEM(pem):
			e.wrong(ca, file, "must be a file with certificates in PEM form")
		}
	}
	switch certFile, keyFile := e.get(cert), e.get(key); {
	case certFile == "" && keyFile == "":
	case certFile == "" || keyFile == "":
		e.wrong(cert, certFile, "set it together with "+key+", or neither of the two")
	default:
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			e.wrong(cert, certFile, "cannot be used: "+err.Error())
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}
