package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// What a server started with [WithMongoAuth] accepts, with all rights.
const (
	MongoUsername = "root"
	MongoPassword = "root secret"
)

// MongoServer is a single node of MongoDB, as a rule a replica set of one. It
// writes its journal, so that a kill shows what a crash would. Safe for
// concurrent use.
type MongoServer struct {
	Port    int    // TCP port on 127.0.0.1
	DataDir string // its data directory; "" for a server that we did not start

	external *url.URL // set for a server that we did not start
	child    *child
	options  mongoOptions
	ready    bool // the replica set and the first user were made
}

// MongoOption changes how a MongoDB server is started.
type MongoOption func(*mongoOptions)

type mongoOptions struct {
	arguments  []string
	standalone bool
	auth       bool
}

// WithMongoArguments adds to mongod's command line.
func WithMongoArguments(arguments ...string) MongoOption {
	return func(o *mongoOptions) { o.arguments = append(o.arguments, arguments...) }
}

// WithMongoOplog bounds the oplog, in MiB, so that old entries go soon: in
// steps of 16 MiB, and what the last checkpoint of each second does not need.
func WithMongoOplog(megabytes int) MongoOption {
	return WithMongoArguments("--oplogSize", strconv.Itoa(megabytes), "--syncdelay", "1")
}

// WithMongoStandalone starts a server that is no replica set: it has neither
// change streams nor transactions.
func WithMongoStandalone() MongoOption { return func(o *mongoOptions) { o.standalone = true } }

// WithMongoAuth makes the server ask for users. The first one is
// [MongoUsername].
func WithMongoAuth() MongoOption { return func(o *mongoOptions) { o.auth = true } }

// Mongo starts a server for this test alone and stops it when the test ends.
// The test may stop, kill, restart and pause it.
func Mongo(tb testing.TB, opts ...MongoOption) *MongoServer {
	tb.Helper()
	m, err := StartMongo(opts...)
	if err != nil {
		unavailable(tb, err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of MongoDB's log:\n%s", tail(m.child.log, 4000))
		}
		if err := m.Close(); err != nil {
			tb.Errorf("close MongoDB: %v", err)
		}
	})
	return m
}

// StartMongo starts a server; the caller closes it.
func StartMongo(opts ...MongoOption) (*MongoServer, error) {
	m := &MongoServer{}
	for _, opt := range opts {
		opt(&m.options)
	}
	bin, err := MongoBin()
	if err != nil {
		return nil, err
	}
	dir, err := tempDir("tailbox-mongo-")
	if err != nil {
		return nil, err
	}
	m.DataDir = filepath.Join(dir, "data")
	if m.child, err = newChild(dir, "KILL", func() *exec.Cmd { return m.command(bin) }); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := m.prepare(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	for try := 1; ; try++ {
		if m.Port, err = freePort(); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		if err = m.Start(); err == nil {
			return m, nil
		}
		if try == 5 || !strings.Contains(err.Error(), "Address already in use") {
			return nil, errors.Join(err, m.Close())
		}
	}
}

// prepare makes the files that the server finds.
func (m *MongoServer) prepare() error {
	if err := os.Mkdir(m.DataDir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if err := own(m.DataDir); err != nil {
		return err
	}
	if !m.options.auth {
		return nil
	}
	if err := os.WriteFile(m.keyFile(), []byte("c2VydmVycyBvZiBvbmUgc2V0\n"), 0o600); err != nil {
		return fmt.Errorf("write key file: %w", err)
	}
	return own(m.keyFile())
}

// keyFile is what members of a replica set that asks for users must share.
func (m *MongoServer) keyFile() string { return filepath.Join(filepath.Dir(m.DataDir), "key") }

// command is the server's command line.
func (m *MongoServer) command(bin string) *exec.Cmd {
	args := []string{
		"--dbpath", m.DataDir, "--port", strconv.Itoa(m.Port), "--bind_ip", "127.0.0.1", "--nounixsocket",
		"--wiredTigerCacheSizeGB", "0.5", "--setParameter", "diagnosticDataCollectionEnabled=false",
	}
	if !m.options.standalone {
		args = append(args, "--replSet", "rs0")
	}
	if m.options.auth {
		args = append(args, "--keyFile", m.keyFile())
	}
	return exec.Command(bin, append(args, m.options.arguments...)...)
}

// URL is a connection string, without a database.
func (m *MongoServer) URL() string { return m.URLOf(MongoUsername, MongoPassword) }

// URLOf is URL for a user; a server that does not ask for users ignores it.
func (m *MongoServer) URLOf(user, password string) string {
	if m.external != nil {
		return m.external.String()
	}
	u := url.URL{Scheme: "mongodb", Host: m.Addr(), Path: "/", RawQuery: "replicaSet=rs0"}
	if m.options.standalone {
		u.RawQuery = ""
	}
	if m.options.auth {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// Addr is the host:port of the TCP port, for [NewProxy].
func (m *MongoServer) Addr() string {
	if m.external != nil {
		return m.external.Host
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port))
}

// URLThrough is a connection string by way of a proxy in front of Addr. A
// client that knows the replica set would go to the server itself.
func (m *MongoServer) URLThrough(p *Proxy) string {
	u, err := url.Parse(m.URL())
	if err != nil {
		return m.URL() // cannot be: URL is made from a parsed or a fixed one
	}
	u.Host, u.RawQuery = p.Addr, "directConnection=true"
	return u.String()
}

// Start starts a server that was stopped or killed, on the same port and data,
// and returns when it takes writes.
func (m *MongoServer) Start() error {
	if err := m.owned("start"); err != nil {
		return err
	}
	if err := m.child.start(); err != nil {
		return err
	}
	_, exited := m.child.running()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := m.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("start MongoDB on port %d: it ended\n%s", m.Port, tail(m.child.log, 4000))
		case <-ctx.Done():
			return fmt.Errorf("start MongoDB on port %d: no answer within 60 s: %w\n%s", m.Port, err, tail(m.child.log, 4000))
		case <-tick.C:
		}
	}
}

// answers makes the replica set and the first user where they are missing, and
// looks whether the server takes writes.
func (m *MongoServer) answers(ctx context.Context) (err error) {
	opts := options.Client().SetHosts([]string{m.Addr()}).SetDirect(true).SetServerSelectionTimeout(2 * time.Second)
	if m.options.auth && m.ready {
		opts.SetAuth(options.Credential{Username: MongoUsername, Password: MongoPassword})
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	admin := client.Database("admin")
	var hello struct {
		Primary bool   `bson:"isWritablePrimary"`
		Set     string `bson:"setName"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		return err
	}
	if hello.Set == "" && !m.options.standalone && !m.ready {
		err := admin.RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: bson.D{
			{Key: "_id", Value: "rs0"}, {Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: m.Addr()}}}},
		}}}).Err()
		return errors.Join(err, errors.New("the replica set was just made"))
	}
	if !hello.Primary {
		return errors.New("it is not the primary yet")
	}
	if m.options.auth && !m.ready {
		err := admin.RunCommand(ctx, bson.D{
			{Key: "createUser", Value: MongoUsername}, {Key: "pwd", Value: MongoPassword}, {Key: "roles", Value: bson.A{"root"}},
		}).Err()
		if err != nil {
			return fmt.Errorf("make the first user: %w", err)
		}
	}
	m.ready = true
	return nil
}

// Stop ends the server as an administrator would: clients are cut off, and the
// data is written.
func (m *MongoServer) Stop() error {
	if err := m.owned("stop"); err != nil {
		return err
	}
	return m.child.stop(syscall.SIGTERM)
}

// Kill ends the server with SIGKILL, as a power cut would.
func (m *MongoServer) Kill() error {
	if err := m.owned("kill"); err != nil {
		return err
	}
	return m.child.kill()
}

// Restart stops the server if it runs and starts it again on the same port.
func (m *MongoServer) Restart() error { return errors.Join(m.Stop(), m.Start()) }

// Forget makes a stopped server forget its replica set and its oplog, as who
// restores a copy of its files elsewhere does. Start makes a new set then.
func (m *MongoServer) Forget() error {
	m.options.standalone = true
	err := m.Start()
	if err == nil {
		err = errors.Join(m.dropDatabase("local"), m.Stop())
	}
	m.options.standalone, m.ready = false, false
	if err != nil {
		return fmt.Errorf("forget the replica set: %w", err)
	}
	return nil
}

// Pause freezes the server with SIGSTOP: connections stay open and nothing
// answers.
func (m *MongoServer) Pause() error {
	if err := m.owned("pause"); err != nil {
		return err
	}
	_, err := m.child.pause()
	return err
}

// Resume lets a paused server go on.
func (m *MongoServer) Resume() error {
	if err := m.owned("resume"); err != nil {
		return err
	}
	return m.child.resume()
}

// Close ends the server at once and removes its data. Nothing happens to a
// server that we did not start.
func (m *MongoServer) Close() error {
	if m.external != nil {
		return nil
	}
	return m.child.close()
}

// owned refuses verbs on a server that somebody else started.
func (m *MongoServer) owned(verb string) error {
	if m.external != nil {
		return fmt.Errorf("%s MongoDB: TAILBOX_TEST_MONGODB_URL names a server that is not ours; use servers.Mongo for one", verb)
	}
	return nil
}
