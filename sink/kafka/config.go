package kafka

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"github.com/tailbox/tailbox/sink"
)

// Defaults of a Config.
const (
	DefaultClientID       = "tailbox"
	DefaultCompression    = "none"
	DefaultConcurrency    = 16
	DefaultMaxBatch       = 2000
	DefaultMaxBytes       = 900 << 10
	DefaultTimeout        = 30 * time.Second
	DefaultConnectTimeout = 10 * time.Second
	DefaultMetadataAge    = 5 * time.Minute
)

// maxRecordBatch bounds what the sink puts into one record batch, uncompressed, until a topic says that it allows less.
// Kafka's own default of max.message.bytes is 1048588.
const maxRecordBatch = 1_000_000

// Config of a Sink. The zero value of a field means its default.
type Config struct {
	// Brokers are host:port of some of the cluster's brokers; the others are learnt from them. Required.
	Brokers []string
	// Topics are those that Check looks for. Messages may go to others.
	Topics []string
	// ClientID names the relay in the brokers' logs and quotas. Default tailbox.
	ClientID string
	// Compression of record batches: none, gzip, snappy, lz4, zstd. Default none.
	Compression string
	// Concurrency is the most requests in flight at once; to one partition there is never more than one. Default 16.
	Concurrency int
	// MaxBatch is the most messages, and MaxBytes the most bytes of values, in one call. Default 2000 and 900 KiB.
	MaxBatch int
	MaxBytes int
	// Timeout bounds one produce request, the replicas' acknowledgements included. Default 30 s.
	Timeout time.Duration
	// ConnectTimeout bounds connecting to one broker, TLS and authentication included. Default 10 s.
	ConnectTimeout time.Duration
	// MetadataAge is after how long the partitions of a topic are asked for again, so that new ones are found. Default
	// 5 min.
	MetadataAge time.Duration
	// SASL, if not nil, is how to authenticate.
	SASL *SASL
	// TLS, if not nil, is how to speak TLS.
	TLS *sink.TLS
	// AllowPlaintext: the password of the mechanism plain may go to other machines without encryption.
	AllowPlaintext bool
	// OmitMetadata leaves out the headers tailbox-* (in the configuration: metadata_headers: false).
	OmitMetadata bool
}

// SASL says how to authenticate.
type SASL struct {
	// Mechanism is plain, scram-sha-256 or scram-sha-512.
	Mechanism string
	Username  string
	Password  string
}

// Read reads the keys of a sink of kind kafka.
func Read(s sink.Section) Config {
	c := Config{
		Brokers:        s.Hosts("brokers"),
		Topics:         s.Strings("topics"),
		ClientID:       s.String("client_id", DefaultClientID),
		Compression:    s.String("compression", DefaultCompression),
		Concurrency:    s.Int("concurrency", DefaultConcurrency, 1, 1000),
		MaxBatch:       s.Int("max_batch", DefaultMaxBatch, 1, 100_000),
		MaxBytes:       int(s.Size("max_bytes", DefaultMaxBytes, 1)),
		Timeout:        s.Positive("timeout", DefaultTimeout),
		ConnectTimeout: s.Positive("connect_timeout", DefaultConnectTimeout),
		MetadataAge:    s.Positive("metadata_age", DefaultMetadataAge),
		TLS:            sink.ReadTLS(s),
		AllowPlaintext: s.Bool("allow_plaintext", false),
		OmitMetadata:   !s.Bool("metadata_headers", true),
	}
	s.Within("sasl", func(sasl sink.Section) {
		c.SASL = &SASL{Mechanism: sasl.String("mechanism", ""), Username: sasl.String("username", ""), Password: sasl.Secret("password")}
	})
	return c
}

// Open implements sink.Spec.
func (c Config) Open() (sink.Sink, error) { return New(c) }

func (c Config) withDefaults() Config {
	sink.SetDefault(&c.ClientID, DefaultClientID)
	sink.SetDefault(&c.Compression, DefaultCompression)
	sink.SetDefault(&c.Concurrency, DefaultConcurrency)
	sink.SetDefault(&c.MaxBatch, DefaultMaxBatch)
	sink.SetDefault(&c.MaxBytes, DefaultMaxBytes)
	sink.SetDefault(&c.Timeout, DefaultTimeout)
	sink.SetDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	sink.SetDefault(&c.MetadataAge, DefaultMetadataAge)
	return c
}

// Validate returns all problems of c.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, sink.Invalid(key, value, want))
		}
	}
	check(len(c.Brokers) > 0, "brokers", "", "at least one host:port")
	for _, address := range c.Brokers {
		check(validAddress(address), "brokers", address, "host:port, such as kafka-1.example.org:9092")
	}
	for _, topic := range c.Topics {
		check(topic != "", "topics", topic, "names of topics")
	}
	_, ok := compressionCode(c.Compression)
	check(ok, "compression", c.Compression, "none, gzip, snappy, lz4 or zstd")
	check(len(c.ClientID) <= 255, "client_id", c.ClientID, "at most 255 bytes")
	check(c.Concurrency > 0 && c.Concurrency <= 1000, "concurrency", c.Concurrency, "1 to 1000")
	check(c.MaxBatch > 0 && c.MaxBatch <= 100_000, "max_batch", c.MaxBatch, "1 to 100000")
	check(c.MaxBytes > 0 && c.MaxBytes <= 64<<20, "max_bytes", c.MaxBytes, "1 B to 64 MiB")
	check(c.Timeout > 0, "timeout", c.Timeout, "more than 0")
	check(c.ConnectTimeout > 0, "connect_timeout", c.ConnectTimeout, "more than 0")
	check(c.MetadataAge > 0, "metadata_age", c.MetadataAge, "more than 0")
	if c.SASL != nil {
		_, ok := mechanisms()[strings.ToLower(c.SASL.Mechanism)]
		check(ok, "sasl.mechanism", c.SASL.Mechanism, "plain, scram-sha-256 or scram-sha-512")
		check(c.SASL.Username != "", "sasl.username", c.SASL.Username, "a user's name")
		check(c.SASL.Password != "", "sasl.password", "", "that user's password")
	}
	return errors.Join(append(errs, c.TLS.Validate())...)
}

func validAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	return err == nil && portErr == nil && host != "" && n > 0
}

// compressionCode is the attribute of a record batch for a compression.
func compressionCode(name string) (compress.Compression, bool) {
	// In the order of Kafka's codes, from 0.
	code := slices.Index([]string{"none", "gzip", "snappy", "lz4", "zstd"}, strings.ToLower(name))
	return compress.Compression(code), code >= 0
}

// plaintext says that a password goes over the network in the clear. The mechanisms scram-* send none.
func (c Config) plaintext() error {
	if c.AllowPlaintext || c.TLS != nil || c.SASL == nil || !strings.EqualFold(c.SASL.Mechanism, "plain") {
		return nil
	}
	return sink.Plaintext("sasl.password", c.Brokers...)
}
