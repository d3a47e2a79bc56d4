package mongo

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/checkpoint"
	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source/sqlstore"
)

// alter changes deliveries alike.
func (p *part) alter(ctx context.Context, rows []*view, set, unset bson.D) error {
	if len(rows) == 0 {
		return nil
	}
	update := bson.D{{Key: "$set", Value: set}}
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	_, err := p.s.parked.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: oids(rows)}}}}, update)
	return err
}

func oids(rows []*view) []bson.ObjectID {
	ids := make([]bson.ObjectID, len(rows))
	for i, v := range rows {
		ids[i] = v.OID
	}
	return ids
}

// replay makes deliveries wait for their turn again, with no attempt spent. What its group has passed comes out of order,
// which the operator has to allow.
func (p *part) replay(ctx context.Context, rows []*view) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(v *view) bool {
		passed := v.State == checkpoint.StateDead && !v.Blocks && !v.Alone && !p.request.Selection.AllowReorder
		if passed {
			p.result.Refuse("the group has gone on: replay it with --allow-reorder, and it is delivered out of order")
		}
		return passed
	})
	if p.request.Selection.Refresh {
		var err error
		if rows, err = p.refresh(ctx, rows); err != nil {
			return err
		}
	}
	return p.again(ctx, rows)
}

// again is the part that replay and edit share.
func (p *part) again(ctx context.Context, rows []*view) error {
	p.touch(rows)
	p.changed += len(rows)
	if len(rows) == 0 {
		return nil
	}
	// The first deliveries of the lanes lose their time: a replayed one may come before them.
	heads, err := p.s.heads(ctx, p.attempt.lanes.order)
	if err != nil {
		return err
	}
	var first []bson.ObjectID
	for _, h := range heads {
		if h.Next != nil {
			first = append(first, h.OID)
		}
	}
	if len(first) > 0 {
		if _, err := p.s.parked.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: first}}}},
			bson.D{{Key: "$unset", Value: bson.D{{Key: "next_attempt_at", Value: ""}}}}); err != nil {
			return err
		}
	}
	for _, isAlone := range []bool{true, false} {
		some := slices.DeleteFunc(slices.Clone(rows), func(v *view) bool { return v.Alone != isAlone })
		if len(some) == 0 {
			continue
		}
		set := bson.D{{Key: "state", Value: checkpoint.StateWaiting}, {Key: "blocks", Value: !isAlone}, {Key: "attempts", Value: 0}, {Key: "changed_at", Value: p.now}}
		unset := bson.D{{Key: "last_error", Value: ""}, {Key: "error_class", Value: ""}}
		if isAlone {
			set = append(set, bson.E{Key: "next_attempt_at", Value: p.now})
		} else {
			unset = append(unset, bson.E{Key: "next_attempt_at", Value: ""})
		}
		_, err := p.s.parked.UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: oids(some)}}}}, bson.D{
			{Key: "$set", Value: set}, {Key: "$unset", Value: unset}, {Key: "$inc", Value: bson.D{{Key: "replays", Value: 1}}}})
		if err != nil {
			return err
		}
	}
	return nil
}

// drop gives deliveries up. They stay, not blocking, until their whole message is settled, so that a sweep leaves them out.
func (p *part) drop(ctx context.Context, rows []*view) error {
	p.touch(rows)
	p.changed += len(rows)
	why := "dropped"
	if p.request.Reason != "" {
		why += ": " + p.request.Reason
	}
	return p.alter(ctx, rows, bson.D{{Key: "state", Value: checkpoint.StateDropped}, {Key: "blocks", Value: false}, {Key: "error_class", Value: "dropped"},
		{Key: "last_error", Value: sqlstore.ErrorText(why)}, {Key: "changed_at", Value: p.now}}, bson.D{{Key: "next_attempt_at", Value: ""}})
}

// skip lets groups go on past their dead deliveries, which stay dead.
func (p *part) skip(ctx context.Context, rows []*view) error {
	p.touch(rows)
	p.changed += len(rows)
	return p.alter(ctx, rows, bson.D{{Key: "blocks", Value: false}}, nil)
}

// refresh puts what the documents of the user's table say now in the place of what was copied. Documents that are not pending
// (any more) are refused.
func (p *part) refresh(ctx context.Context, rows []*view) ([]*view, error) {
	old, err := p.read(ctx, rows)
	if err != nil {
		return nil, err
	}
	fresh := make(map[messageKey]*outbox.Message)
	for i := range p.s.cfg.Tables {
		t := &p.s.cfg.Tables[i]
		var ids []string
		for _, v := range rows {
			if v.Table == t.String() {
				ids = append(ids, v.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		found, err := p.s.readRows(ctx, t, ids, pendingCondition(t))
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			fresh[messageKey{t.String(), m.ID}] = m
		}
	}
	var kept []*view
	for _, v := range rows {
		m, parked := fresh[v.messageKey()], old[v.OID]
		if m == nil || parked == nil {
			p.result.Refuse("the document is not pending any more")
			continue
		}
		parked.Message = sqlstore.WithPresentContent(parked.Message, m)
		parked.InTable = m.Fault != nil
		if err := p.rewrite(ctx, v.OID, parked); err != nil {
			return nil, err
		}
		kept = append(kept, v)
	}
	return kept, nil
}

// edit changes what deliveries carry, gives them a new id, and replays them. The document's own id stays their identity here.
func (p *part) edit(ctx context.Context, rows []*view) error {
	old, err := p.read(ctx, rows)
	if err != nil {
		return err
	}
	if p.result.NewID == "" {
		if p.result.NewID = p.request.Selection.Edit.NewID; p.result.NewID == "" {
			p.result.NewID = sqlstore.NewUUID()
		}
	}
	var kept []*view
	for _, v := range rows {
		parked := old[v.OID]
		passed := !v.Blocks && !v.Alone && !p.request.Selection.AllowReorder
		switch {
		case parked == nil:
			continue
		case passed:
			p.result.Refuse("the group has gone on: edit it with --allow-reorder, and it is delivered out of order")
			continue
		case parked.InTable && p.request.Selection.Edit.Payload == nil:
			p.result.Refuse("the message was not copied as a whole: give the edit a payload, or mend the document and replay it")
			continue
		}
		parked.Original = parked.RowID()
		parked.Message = sqlstore.Edited(parked.Message, p.request.Selection.Edit)
		parked.Message.ID, parked.InTable = p.result.NewID, false
		if parked.Message.Size() > maxParked {
			p.result.Refuse("the edited message is larger than a document may be")
			continue
		}
		if err := p.rewrite(ctx, v.OID, parked); err != nil {
			return err
		}
		kept = append(kept, v)
	}
	return p.again(ctx, kept)
}

// read reads whole deliveries.
func (p *part) read(ctx context.Context, rows []*view) (map[bson.ObjectID]*checkpoint.Parked, error) {
	docs, err := p.s.findParked(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: oids(rows)}}}})
	if err != nil {
		return nil, err
	}
	out := make(map[bson.ObjectID]*checkpoint.Parked, len(docs))
	for _, d := range docs {
		parked, err := d.parked(p.now)
		if err != nil {
			return nil, err
		}
		out[d.OID] = &parked
	}
	return out, nil
}

// rewrite replaces what a delivery carries, and nothing else.
func (p *part) rewrite(ctx context.Context, id bson.ObjectID, d *checkpoint.Parked) error {
	var was parkedDocument
	byID := bson.D{{Key: "_id", Value: id}}
	if err := p.s.parked.FindOne(ctx, byID).Decode(&was); err != nil {
		return err
	}
	was.setMessage(d)
	_, err := p.s.parked.ReplaceOne(ctx, byID, &was)
	return err
}
