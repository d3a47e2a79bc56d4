package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/mongo/catalog"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store/check"
)

// outboxCollections looks at the collections that applications write to.
func (c *checker) outboxCollections(ctx context.Context) error {
	made := catalog.Outbox(&c.cfg)
	for i := range c.cfg.Tables {
		t := &c.cfg.Tables[i]
		info, err := catalog.Find(ctx, c.client, t.Schema, t.Name)
		if err != nil {
			return err
		}
		if info == nil {
			beside, err := collectionsBeside(ctx, c.client, t)
			if err != nil {
				return err
			}
			c.Absent(t, "collection "+t.String(), ownShape(t.Shape), beside, c.cfg.Tables)
			continue
		}
		c.tables = append(c.tables, t)
		what, fix, err := info.Unsupported(ctx, c.client, t)
		if err != nil {
			return err
		}
		if what != "" {
			c.Add(check.Problem, fix, "%s", what)
			continue
		}
		if err := c.statuses(ctx, t); err != nil {
			return err
		}
		c.Note(check.Unswept(t, catalog.Pending(t) != nil))
		if err := c.columns(ctx, t); err != nil {
			return err
		}
		if err := c.sharedIDs(ctx, t); err != nil {
			return err
		}
		missing, err := made[i].MissingIndexes(ctx, c.client)
		if err != nil {
			return err
		}
		for _, x := range missing {
			c.Add(check.Warning, indexCommand(&made[i], &x), "collection %s has no index on %s", t, strings.Join(x.Keys, ", "))
		}
	}
	return nil
}

// columns looks whether the newest document can be understood: nothing else tells what is in a collection.
func (c *checker) columns(ctx context.Context, t *outbox.Table) error {
	if t.OnDelivered == outbox.Mark && t.Columns.Status == "" && t.Columns.DeliveredAt == "" {
		c.Add(check.Problem, "name the field under source.tables.columns (status or delivered_at), or set on_delivered to delete or keep",
			"collection %s is to be marked, but has no field for it", t)
	}
	doc, err := c.client.Database(t.Schema).Collection(t.Name).FindOne(ctx, bson.D{}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		return err
	}
	d := document.Decoder{MaxMessage: c.cfg.MaxMessage}
	m := d.NewMessage()
	if err := d.Decode(document.NewPlan(t), doc, m); err != nil {
		c.Add(check.Problem, "correct columns under source.tables", "%v", err)
	} else if m.Fault != nil {
		c.Add(check.Warning, "correct columns under source.tables", "a document of %s: %s", t, m.Fault.Reason)
	}
	return nil
}

// sharedIDs looks for documents with one id. No two of a collection have one _id.
func (c *checker) sharedIDs(ctx context.Context, t *outbox.Table) error {
	id := t.Columns.ID
	if id == "_id" {
		return nil
	}
	cur, err := c.client.Database(t.Schema).Collection(t.Name).Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: id, Value: bson.D{{Key: "$ne", Value: nil}}}}}},
		bson.D{{Key: "$limit", Value: check.SharedLimit}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$" + id}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		bson.D{{Key: "$match", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$gt", Value: 1}}}}}},
		bson.D{{Key: "$limit", Value: 1}},
	})
	if err != nil {
		return nil // the rights are looked at by themselves
	}
	var shared []bson.Raw
	if err := cur.All(ctx, &shared); err != nil {
		return fmt.Errorf("look for shared ids in collection %s: %w", t, err)
	}
	if len(shared) > 0 {
		c.Note(check.SharedIDs(t))
	}
	return nil
}

// statuses looks for documents that are neither delivered nor pending.
func (c *checker) statuses(ctx context.Context, t *outbox.Table) error {
	if t.Columns.Status == "" {
		return nil
	}
	return c.Statuses(ctx, t, c.started, func(ctx context.Context) (counts []check.StatusCount, err error) {
		where := append(bson.D{{Key: t.Columns.Status, Value: bson.D{{Key: "$nin", Value: bson.A{t.Words.Value(t.Words.Delivered), nil}}}}}, catalog.Ours(t)...)
		cur, err := c.client.Database(t.Schema).Collection(t.Name).Aggregate(ctx, bson.A{bson.D{{Key: "$match", Value: where}},
			bson.D{{Key: "$limit", Value: check.Limit}}, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$toString", Value: "$" + t.Columns.Status}}},
				{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}})
		var found []struct {
			Word string `bson:"_id"`
			N    int    `bson:"n"`
		}
		if err == nil {
			err = cur.All(ctx, &found)
		}
		if err != nil {
			return nil, nil // the rights are looked at by themselves, and a status may be of any type
		}
		for _, f := range found {
			counts = append(counts, check.StatusCount{Word: f.Word, Rows: f.N})
		}
		return counts, nil
	}, func(ctx context.Context) (bool, error) {
		n, err := c.client.Database(c.cfg.Schema).Collection(catalog.Parked).CountDocuments(ctx, bson.D{{Key: "pipeline", Value: c.cfg.Pipeline},
			{Key: "source_table", Value: t.String()}}, options.Count().SetLimit(1))
		return n > 0, err
	})
}

// started reports whether a position was ever taken.
func (c *checker) started(ctx context.Context) (bool, error) {
	if !c.own {
		return false, nil
	}
	n, err := c.client.Database(c.cfg.Schema).Collection(catalog.Checkpoints).CountDocuments(ctx,
		bson.D{{Key: "_id", Value: c.cfg.Pipeline}, {Key: "resume", Value: bson.D{{Key: "$gt", Value: ""}}}})
	return n > 0, err
}

// firstStart tells what a first start would send, where no position was ever taken.
func (c *checker) firstStart(ctx context.Context) error {
	if started, err := c.started(ctx); err != nil || started {
		return err
	}
	for _, t := range c.tables {
		where := catalog.Pending(t)
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
			c.Add(check.Info, "", "the first start delivers %s documents that are in %s now", many, t)
		case c.cfg.Start == "now":
			f := check.LeftAlone(t, many+" documents")
			c.Note(&f)
		default:
			c.Add(check.Problem, "set source.start to pending (deliver them) or now (leave them out)", "collection %s holds %s documents, and no field tells which were delivered", t, many)
		}
	}
	return nil
}

// countLimit bounds how many documents are counted.
const countLimit = 10000

func countOptions() *options.CountOptionsBuilder { return options.Count().SetLimit(countLimit + 1) }
