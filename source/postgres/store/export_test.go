package store

import (
	"github.com/tailbox/tailbox/source/postgres/usertable"
	"github.com/tailbox/tailbox/source/store"
	"github.com/tailbox/tailbox/source/store/relational"
)

// What tests outside of the package need of its inside.

// ErrParams is why a statement of feedback failed whose parameters the server finds to be others.
var ErrParams = errParams

// The statements that are looked at when much is parked.
var (
	BlockedLanes, HeadsOf, LookupParked, NextDue, PageKeys, RemoveDelivered = blockedLanes, headsOf, lookupParked, nextDue, pageKeys, removeDelivered
	DueParked                                                               = dueParked
	ReadParked                                                              = readParked
	NewestDead, CountDead                                                   = newestDead, countDead
)

// SetNamed makes the next settlement ask which rows are there.
func (s *Store) SetNamed(named bool) { s.named = named }

// FirstTable is the first configured table.
func (s *Store) FirstTable() *usertable.Table { return s.tables.Order[0] }

// AlikeStatement is the statement that changes rows of the first table, all in the same way.
func (s *Store) AlikeStatement(change *store.RowChange, ids ...string) (sql string, args []any, err error) {
	w := &rowWork{table: s.FirstTable(), alike: true}
	for _, id := range ids {
		w.rows = append(w.rows, relational.RowChange{ID: id, RowChange: change})
	}
	args, err = w.args()
	return w.sql(false), args, err
}
