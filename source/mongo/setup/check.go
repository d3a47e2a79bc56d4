package setup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/lease"
	"github.com/tailbox/tailbox/source/mongo/oplog"
	"github.com/tailbox/tailbox/source/prepare"
	"github.com/tailbox/tailbox/source/store/check"
)

// A checker asks what is to be asked of the database.
type checker struct {
	prepare.Checker
	cfg    conn.Config
	client *mongo.Client
	hello  *conn.Hello
	// tables are those that exist. Own: the relay's collections are there.
	tables []*outbox.Table
	own    bool
}

// Check looks at everything that the relay needs of the database, and returns all that it finds. It changes nothing. An error
// means that it could not go on looking; what was found before is returned with it.
func Check(ctx context.Context, cfg conn.Config) (findings []check.Finding, err error) {
	c := &checker{}
	if c.cfg, err = cfg.Resolved(); err != nil {
		c.Add(check.Problem, "correct the configuration", "%v", err)
		return c.Findings, nil
	}
	c.transport()
	if c.client, err = c.cfg.Connect(); err == nil {
		defer func() { err = errors.Join(err, conn.Disconnect(ctx, c.client)) }()
		c.hello, err = conn.Greet(ctx, c.client)
	}
	if err != nil {
		c.Add(check.Problem, "correct source.url, or start the server", "%v", err)
		return c.Findings, nil
	}
	if err := c.hello.Usable(); err != nil {
		c.Add(check.Problem, "", "%v", err)
		return c.Findings, nil
	}
	if c.hello.Sharded() {
		c.Add(check.Info, "setParameter periodicNoopIntervalSecs: 1 on all shards", "the server is a router of a sharded cluster: the change stream waits for the quietest shard")
	}
	for _, look := range []struct {
		at string
		do func(context.Context) error
	}{
		{"privileges", c.privileges}, {"the oplog", c.oplog}, {"collections tailbox_*", c.ownCollections}, {"outbox collections", c.outboxCollections},
		{"lease", c.lease}, {"first start", c.firstStart},
	} {
		if err := look.do(ctx); err != nil {
			if conn.HasCode(err, conn.CodeUnauthorized) {
				continue // found already, by name
			}
			return c.Findings, fmt.Errorf("check %s: %w", look.at, err)
		}
	}
	return c.Findings, nil
}

// transport warns of servers to which the connection goes in the clear, or to whoever answers.
func (c *checker) transport() {
	opts := options.Client().ApplyURI(c.cfg.URL)
	for _, address := range opts.Hosts {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address // without a port, or a Unix socket
		}
		t := check.Transport{Key: "source.url", Host: host, Encrypted: opts.TLSConfig != nil, Verified: opts.TLSConfig != nil && !opts.TLSConfig.InsecureSkipVerify}
		if f := t.Warn("tls=true, with tlsCAFile if the authority is your own, and without tlsInsecure, in source.url"); f != nil {
			c.Findings = append(c.Findings, *f)
			return // the others are like it
		}
	}
}

// oplog looks at how far back the log reaches, where the user may see that.
func (c *checker) oplog(ctx context.Context) error {
	if c.hello.Sharded() {
		return nil
	}
	o, err := oplog.Read(ctx, c.client)
	if need := oplogNeed(); conn.HasCode(err, conn.CodeUnauthorized) {
		c.Add(check.Warning, grant(&c.cfg, &need, need.actions)+", or the same to the role that the user has", "the user may not read local.oplog.rs: how far back it reaches is "+
			"not known, and a server that was restored from a copy of its files as another replica set would not be recognised")
		return nil
	}
	if err != nil {
		return err
	}
	if hours := o.Window().Hours(); hours < 24 && o.Size*10 > o.MaxSize*9 {
		c.Add(check.Warning, "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 48})", "the oplog reaches back %.1f hours: after a longer outage "+
			"tailbox loses its position. It then sweeps the collections for pending documents, if it deletes documents or they have a status", hours)
	}
	return nil
}

// ownCollections looks at the relay's own collections and their indexes.
func (c *checker) ownCollections(ctx context.Context) error {
	c.own = true
	for _, coll := range catalog.Own(&c.cfg) {
		info, err := catalog.Find(ctx, c.client, coll.Database, coll.Name)
		if err != nil {
			return err
		}
		if info == nil {
			c.own = false
			c.Add(check.Problem, "run tailbox init", "collection %s does not exist", &coll)
			continue
		}
		missing, err := coll.MissingIndexes(ctx, c.client)
		if err != nil {
			return err
		}
		for _, x := range missing {
			c.Add(check.Problem, "run tailbox init", "collection %s has no index %s", &coll, x.Name)
		}
	}
	if !c.own {
		return nil
	}
	state, err := catalog.SchemaOf(ctx, &c.cfg, c.client)
	if err != nil {
		return err
	}
	c.Note(state.Finding(catalog.Known()))
	return nil
}

// lease reports whether a relay is running.
func (c *checker) lease(ctx context.Context) error {
	if !c.own {
		return nil
	}
	h, err := lease.Read(ctx, c.client, &c.cfg)
	if err == nil && h != nil {
		c.Add(check.Info, "", "a relay of this pipeline is running (%s, process %d)", h.Host, h.PID)
	}
	return err
}

// privileges looks for what RoleScript grants.
func (c *checker) privileges(ctx context.Context) error {
	r, err := conn.ReadRights(ctx, c.client)
	if err != nil {
		return err
	}
	for _, n := range needs(&c.cfg) {
		if n.database == oplogNeed().database {
			continue // the relay can do without, and the look at the oplog says what it lacks then
		}
		var missing []string
		for _, action := range n.actions {
			if !r.Allow(n.database, n.collection, action) {
				missing = append(missing, action)
			}
		}
		if len(missing) > 0 {
			c.Add(check.Problem, grant(&c.cfg, &n, missing)+", or the same to the role that the user has", "the user has no %s on %s", strings.Join(missing, ", "), n.String())
		}
	}
	return nil
}
