package mongo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/store"
)

// A Level says how bad a Finding is.
type Level = store.Level

// Levels of findings.
const (
	Problem = store.Problem
	Warning = store.Warning
	Info    = store.Info
)

// A Finding is something that Check found.
type Finding = store.Finding

// A checker gathers findings.
type checker struct {
	cfg      Config
	client   *mongo.Client
	hello    *hello
	findings []Finding
	// tables are those that exist. Own: the relay's collections are there.
	tables []*outbox.Table
	own    bool
}

func (c *checker) add(level Level, cure, what string, args ...any) {
	c.findings = append(c.findings, Finding{Level: level, What: fmt.Sprintf(what, args...), Cure: cure})
}

// Check looks at everything that the relay needs of the database, and returns all that it finds. It changes nothing. An error
// means that it could not go on looking; what was found before is returned with it.
func (cfg Config) Check(ctx context.Context) (findings []Finding, err error) {
	c := &checker{}
	if c.cfg, err = cfg.resolved(); err != nil {
		c.add(Problem, "correct the configuration", "%v", err)
		return c.findings, nil
	}
	c.transport()
	if c.client, err = c.cfg.connect(); err == nil {
		defer func() { err = errors.Join(err, disconnect(ctx, c.client)) }()
		c.hello, err = greet(ctx, c.client)
	}
	if err != nil {
		c.add(Problem, "correct source.url, or start the server", "%v", err)
		return c.findings, nil
	}
	if err := c.hello.usable(); err != nil {
		c.add(Problem, "", "%v", err)
		return c.findings, nil
	}
	if c.hello.sharded() {
		c.add(Info, "setParameter periodicNoopIntervalSecs: 1 on all shards", "the server is a router of a sharded cluster: the change stream waits for the quietest shard")
	}
	for _, look := range []struct {
		at string
		do func(context.Context) error
	}{
		{"privileges", c.privileges}, {"the oplog", c.oplog}, {"collections tailbox_*", c.ownCollections}, {"outbox collections", c.outboxCollections},
		{"lease", c.lease}, {"first start", c.firstStart},
	} {
		if err := look.do(ctx); err != nil {
			if hasCode(err, codeUnauthorized) {
				continue // found already, by name
			}
			return c.findings, fmt.Errorf("check %s: %w", look.at, err)
		}
	}
	return c.findings, nil
}

// transport warns of servers to which the connection goes in the clear, or to whoever answers.
func (c *checker) transport() {
	opts := options.Client().ApplyURI(c.cfg.URL)
	for _, address := range opts.Hosts {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address // without a port, or a Unix socket
		}
		t := store.Transport{Key: "source.url", Host: host, Encrypted: opts.TLSConfig != nil, Verified: opts.TLSConfig != nil && !opts.TLSConfig.InsecureSkipVerify}
		if f := t.Warn("tls=true, with tlsCAFile if the authority is your own, and without tlsInsecure, in source.url"); f != nil {
			c.findings = append(c.findings, *f)
			return // the others are like it
		}
	}
}

// oplog looks at how far back the log reaches, where the user may see that.
func (c *checker) oplog(ctx context.Context) error {
	if c.hello.sharded() {
		return nil
	}
	o, err := readOplog(ctx, c.client)
	if need := oplogNeed(); hasCode(err, codeUnauthorized) {
		c.add(Warning, c.cfg.grant(&need, need.actions)+", or the same to the role that the user has", "the user may not read local.oplog.rs: how far back it reaches is "+
			"not known, and a server that was restored from a copy of its files as another replica set would not be recognised")
		return nil
	}
	if err != nil {
		return err
	}
	if hours := o.window().Hours(); hours < 24 && o.Size*10 > o.MaxSize*9 {
		c.add(Warning, "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 48})", "the oplog reaches back %.1f hours: after a longer outage "+
			"the position is lost, which a sweep of the collections heals where a document is deleted or has a status", hours)
	}
	return nil
}

// ownCollections looks at the relay's own collections and their indexes.
func (c *checker) ownCollections(ctx context.Context) error {
	c.own = true
	for _, coll := range c.cfg.ownCollections() {
		info, err := collectionInfo(ctx, c.client, coll.database, coll.name)
		if err != nil {
			return err
		}
		if info == nil {
			c.own = false
			c.add(Problem, "run tailbox init", "collection %s does not exist", &coll)
			continue
		}
		missing, err := coll.missingIndexes(ctx, c.client)
		if err != nil {
			return err
		}
		for _, x := range missing {
			c.add(Problem, "run tailbox init", "collection %s has no index %s", &coll, x.name)
		}
	}
	if !c.own {
		return nil
	}
	state, err := c.cfg.stateOf(ctx, c.client)
	if err != nil {
		return err
	}
	if f := state.Finding(known()); f != nil {
		c.findings = append(c.findings, *f)
	}
	return nil
}

// outboxCollections looks at the collections that applications write to.
func (c *checker) outboxCollections(ctx context.Context) error {
	made := c.cfg.outboxCollections()
	for i := range c.cfg.Tables {
		t := &c.cfg.Tables[i]
		info, err := collectionInfo(ctx, c.client, t.Schema, t.Name)
		if err != nil {
			return err
		}
		if info == nil {
			cure := "create it, or correct source.tables"
			if ownShape(t.Shape) {
				cure = "run tailbox init"
			}
			c.add(Problem, cure, "collection %s does not exist", t)
			continue
		}
		c.tables = append(c.tables, t)
		what, cure, err := info.unfit(ctx, c.client, t)
		if err != nil {
			return err
		}
		if what != "" {
			c.add(Problem, cure, "%s", what)
			continue
		}
		if err := c.statuses(ctx, t); err != nil {
			return err
		}
		if f := store.Unswept(t, pendingCondition(t) != nil); f != nil {
			c.add(f.Level, f.Cure, "%s", f.What)
		}
		if err := c.columns(ctx, t); err != nil {
			return err
		}
		missing, err := made[i].missingIndexes(ctx, c.client)
		if err != nil {
			return err
		}
		for _, x := range missing {
			c.add(Warning, made[i].indexCommand(&x), "collection %s has no index on %s", t, strings.Join(x.keys, ", "))
		}
	}
	return nil
}

// columns looks whether the newest document can be understood: nothing else tells what is in a collection.
func (c *checker) columns(ctx context.Context, t *outbox.Table) error {
	if t.OnDelivered == outbox.Mark && t.Columns.Status == "" && t.Columns.DeliveredAt == "" {
		c.add(Problem, "name the field under source.tables.columns (status or delivered_at), or set on_delivered to delete or keep",
			"collection %s is to be marked, but has no field for it", t)
	}
	doc, err := c.client.Database(t.Schema).Collection(t.Name).FindOne(ctx, bson.D{}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		return err
	}
	d := decoder{maxMessage: c.cfg.MaxMessage}
	m := d.NewMessage()
	if err := d.decode(newPlan(t), doc, m); err != nil {
		c.add(Problem, "correct columns under source.tables", "%v", err)
	} else if m.Fault != nil {
		c.add(Warning, "correct columns under source.tables", "a document of %s: %s", t, m.Fault.Reason)
	}
	return nil
}

// lease tells whether a relay is running.
func (c *checker) lease(ctx context.Context) error {
	if !c.own {
		return nil
	}
	h, err := readHolder(ctx, c.client, &c.cfg)
	if err == nil && h != nil {
		c.add(Info, "", "a relay of this pipeline is running (%s, process %d)", h.Host, h.PID)
	}
	return err
}

// countLimit bounds how many documents are counted.
const countLimit = 10000

// statuses looks for documents that are neither delivered nor pending.
func (c *checker) statuses(ctx context.Context, t *outbox.Table) error {
	if t.Columns.Status == "" {
		return nil
	}
	started, err := c.started(ctx)
	if err != nil {
		return err
	}
	where := append(bson.D{{Key: t.Columns.Status, Value: bson.D{{Key: "$nin", Value: bson.A{t.Words.Value(t.Words.Delivered), nil}}}}}, oursCondition(t)...)
	cur, err := c.client.Database(t.Schema).Collection(t.Name).Aggregate(ctx, bson.A{bson.D{{Key: "$match", Value: where}},
		bson.D{{Key: "$limit", Value: store.StatusLimit}}, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$toString", Value: "$" + t.Columns.Status}}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}})
	var found []struct {
		Word string `bson:"_id"`
		N    int    `bson:"n"`
	}
	if err == nil {
		err = cur.All(ctx, &found)
	}
	if err != nil {
		return nil // the rights are looked at by themselves, and a status may be of any type
	}
	var counts []store.StatusCount
	for _, f := range found {
		counts = append(counts, store.StatusCount{Word: f.Word, Rows: f.N})
	}
	var parked int64
	if started {
		if parked, err = c.client.Database(c.cfg.Schema).Collection(parkedCollection).CountDocuments(ctx, bson.D{{Key: "pipeline", Value: c.cfg.Pipeline},
			{Key: "source_table", Value: t.String()}}, options.Count().SetLimit(1)); err != nil {
			return err
		}
	}
	if f := store.Undelivered(t, counts, started, parked > 0); f != nil {
		c.add(f.Level, f.Cure, "%s", f.What)
	}
	return nil
}

// started tells whether a position was ever taken.
func (c *checker) started(ctx context.Context) (bool, error) {
	if !c.own {
		return false, nil
	}
	n, err := c.client.Database(c.cfg.Schema).Collection(checkpointCollection).CountDocuments(ctx,
		bson.D{{Key: "_id", Value: c.cfg.Pipeline}, {Key: "resume", Value: bson.D{{Key: "$gt", Value: ""}}}})
	return n > 0, err
}

// firstStart tells what a first start would send, where no position was ever taken.
func (c *checker) firstStart(ctx context.Context) error {
	if started, err := c.started(ctx); err != nil || started {
		return err
	}
	for _, t := range c.tables {
		where := pendingCondition(t)
		judged := where != nil
		if !judged {
			where = bson.D{}
		}
		n, err := c.client.Database(t.Schema).Collection(t.Name).CountDocuments(ctx, where, countOptions())
		if err != nil {
			return err
		}
		many := fmt.Sprint(n)
		if n > countLimit {
			many = fmt.Sprintf("more than %d", countLimit)
		}
		switch {
		case n == 0:
		case judged || c.cfg.Start == "pending":
			c.add(Info, "", "the first start delivers %s documents that are in %s now", many, t)
		case c.cfg.Start == "now":
			f := store.LeftAlone(t, many+" documents")
			c.add(f.Level, f.Cure, "%s", f.What)
		default:
			c.add(Problem, "set source.start to pending (deliver them) or now (leave them out)", "collection %s holds %s documents, and no field tells which were delivered", t, many)
		}
	}
	return nil
}

// rights are what the connection's user may do.
type rights struct {
	all        bool // the server asks for no user
	user       string
	privileges []privilege
}

type privilege struct {
	Resource struct {
		DB         *string `bson:"db"`
		Collection *string `bson:"collection"`
		Any        bool    `bson:"anyResource"`
	} `bson:"resource"`
	Actions []string `bson:"actions"`
}

// An authenticated user is one of a connection.
type authenticated struct {
	User string `bson:"user"`
	DB   string `bson:"db"`
}

// readRights asks the server.
func readRights(ctx context.Context, client *mongo.Client) (*rights, error) {
	var status struct {
		Auth struct {
			Users      []authenticated `bson:"authenticatedUsers"`
			Privileges []privilege     `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}).Decode(&status)
	if err != nil {
		return nil, err
	}
	r := &rights{all: len(status.Auth.Users) == 0, privileges: status.Auth.Privileges}
	for _, u := range status.Auth.Users {
		r.user = u.User + "@" + u.DB
	}
	return r, nil
}

// allow tells whether an action is allowed on a collection; "" stands for all of a database, or all databases.
func (r *rights) allow(database, collection, action string) bool {
	if r.all {
		return true
	}
	return slices.ContainsFunc(r.privileges, func(p privilege) bool {
		res := &p.Resource
		fits := res.Any || res.DB != nil && res.Collection != nil && (*res.DB == "" || *res.DB == database) && (*res.Collection == "" || *res.Collection == collection)
		return fits && slices.Contains(p.Actions, action)
	})
}

// privileges looks for what RoleScript grants.
func (c *checker) privileges(ctx context.Context) error {
	r, err := readRights(ctx, c.client)
	if err != nil {
		return err
	}
	for _, n := range c.cfg.needs() {
		if n.database == oplogNeed().database {
			continue // the relay can do without, and the look at the oplog says what it lacks then
		}
		var missing []string
		for _, action := range n.actions {
			if !r.allow(n.database, n.collection, action) {
				missing = append(missing, action)
			}
		}
		if len(missing) > 0 {
			c.add(Problem, c.cfg.grant(&n, missing)+", or the same to the role that the user has", "the user has no %s on %s", strings.Join(missing, ", "), n.String())
		}
	}
	return nil
}
