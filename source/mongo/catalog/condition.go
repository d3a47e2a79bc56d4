package catalog

import (
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/document"
	"github.com/tailbox/tailbox/source/store"
)

// Pending is the filter by which a table's own columns say that a document is pending, or nil if they do not:
// the status is the word for pending, or it is missing, as in documents from before there was one, and so is delivered_at; or without a status
// column, there is no delivered_at.
func Pending(t *outbox.Table) bson.D {
	switch {
	case t.Columns.Status != "":
		var pending bson.A
		for _, word := range t.PendingWords() {
			pending = append(pending, t.Words.Value(word))
		}
		where := bson.D{{Key: t.Columns.Status, Value: bson.D{{Key: "$in", Value: append(slices.Clone(pending), nil)}}}} // an index on the status serves both
		missing := notDead(t.DeadFlagBeside())                                                                           // further conditions on a document without a status
		if t.Columns.DeliveredAt != "" {
			missing = append(missing, bson.E{Key: t.Columns.DeliveredAt, Value: nil})
		}
		if len(missing) > 0 {
			where = append(where, bson.E{Key: "$or", Value: bson.A{bson.D{{Key: t.Columns.Status, Value: bson.D{{Key: "$in", Value: pending}}}}, missing}})
		}
		return append(append(where, notDead(t.DeadFlag())...), Ours(t)...)
	case t.Columns.DeliveredAt != "":
		return append(bson.D{{Key: t.Columns.DeliveredAt, Value: nil}}, append(notDead(t.DeadFlag()), Ours(t)...)...)
	}
	return nil
}

// notDead is the further filter that a document does not look dead by a field of the application's own; nil if no such field tells.
func notDead(flag *outbox.SetValue) bson.D {
	switch {
	case flag == nil:
		return nil
	case flag.Now:
		return bson.D{{Key: flag.Column, Value: nil}}
	}
	return bson.D{{Key: flag.Column, Value: bson.D{{Key: "$ne", Value: SetValue(flag)}}}}
}

// SetValue is a value that the configuration gives a field: a boolean, a whole number or a text, as it is written there.
func SetValue(v *outbox.SetValue) any {
	if v.Null {
		return nil
	}
	if n, ok := outbox.Number(v.Value); ok {
		return n
	}
	if b, err := strconv.ParseBool(v.Value); err == nil && v.Value == strconv.FormatBool(b) {
		return b
	}
	return v.Value
}

// PendingOurs is the same, or where no column tells, the filter for all of this pipeline's documents.
func PendingOurs(t *outbox.Table) bson.D {
	if where := Pending(t); where != nil {
		return where
	}
	return append(bson.D{}, Ours(t)...)
}

// Ours is the filter by which a document is this pipeline's; nil if all are. One without a tenant has the tenant "".
func Ours(t *outbox.Table) bson.D {
	if len(t.Tenants) == 0 {
		return nil
	}
	all := TenantValues(t)
	if slices.Contains(t.Tenants, "") {
		all = append(all, nil)
	}
	return bson.D{{Key: t.Columns.Tenant, Value: bson.D{{Key: "$in", Value: all}}}}
}

// TenantValues are all that the field of a tenant may hold: the log has the text of an ObjectID, a UUID and a number too.
func TenantValues(t *outbox.Table) bson.A {
	var all bson.A
	for _, tenant := range t.Tenants {
		all = document.AppendIDs(all, 0, tenant)
	}
	return all
}

// PendingRows is the filter by which a table's documents are pending at a new position; nil = none is. With a fix, nothing
// tells: if there are such documents at all, an operator has to do what it says.
func PendingRows(cfg *conn.Config, t *outbox.Table, known source.Known) (where bson.D, fix string) {
	if where := Pending(t); where != nil {
		return where, ""
	}
	sweep, fix := store.Unmarked(t, cfg.Start, known)
	if !sweep {
		return nil, ""
	}
	return bson.D{}, fix
}

// SweepOrder is how a table's documents are sorted; nil if it has no column for it.
func SweepOrder(t *outbox.Table) bson.D {
	var by bson.D
	for _, name := range []string{t.Columns.Seq, t.Columns.CreatedAt} {
		if name != "" {
			by = append(by, bson.E{Key: name, Value: 1})
		}
	}
	return by
}
