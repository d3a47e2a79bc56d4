package outboxgorm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/tailbox/tailbox/outbox"
)

var errUndo = errors.New("undo")

// TestWrite: a message goes with its transaction, of all kinds that gorm has.
func TestWrite(t *testing.T) {
	each(t, func(r *rig) {
		w := r.make().writer(outbox.Options{MaxMessage: 1000})
		for i, db := range []*gorm.DB{r.db, r.db.Session(&gorm.Session{PrepareStmt: true}), r.db.Session(&gorm.Session{SkipDefaultTransaction: true, NewDB: true})} {
			db = db.WithContext(r.Context())
			if err := db.Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&Order{State: "paid"}).Error; err != nil {
					return err
				}
				_, err := w.Write(tx, outbox.Draft{Type: "OrderPaid", Group: "order:1", Payload: []byte("the-secret")})
				return err
			}); err != nil {
				r.Fatal(err)
			}
			if err := db.Transaction(func(tx *gorm.DB) error {
				err := tx.Create(&Order{State: "paid"}).Error
				_, failed := w.Write(tx, outbox.Draft{Type: "OrderPaid", Payload: []byte("p")})
				return errors.Join(errUndo, err, failed)
			}); !errors.Is(err, errUndo) {
				r.Error(err)
			}
			want := int64(i + 1)
			if got := r.counts(); got != [2]int64{want, want} {
				r.Errorf("orders and messages: %v, want %d of each", got, want)
			}
		}
		log := r.log.String()
		if strings.Contains(log, "the-secret") || !strings.Contains(log, "INSERT INTO") || !strings.Contains(log, "payload") {
			r.Errorf("the log shows a payload, or not the statement:\n%.2000s", log)
		}
	})
}

// TestRefused: what cannot be written is told, and the transaction goes on.
func TestRefused(t *testing.T) {
	each(t, func(r *rig) {
		w := r.make().writer(outbox.Options{MaxMessage: 1000, Savepoint: true})
		if err := r.db.Exec("ALTER TABLE outbox ADD CONSTRAINT short CHECK (message_group <> 'bad')").Error; err != nil {
			r.Fatal(err)
		}
		for _, prepare := range []bool{false, true} {
			if err := r.db.Session(&gorm.Session{PrepareStmt: prepare}).Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&Order{State: "paid"}).Error; err != nil {
					return err
				}
				_, err := w.Write(tx, outbox.Draft{Type: "t", Payload: make([]byte, 1001)})
				if _, ok := errors.AsType[*outbox.DraftError](err); !ok {
					r.Errorf("too large: %v", err)
				}
				if _, err := w.Write(tx, outbox.Draft{Type: "t", Group: "bad", Payload: []byte("p")}); err == nil {
					r.Error("a row that breaks a constraint was written")
				}
				key := outbox.Key(fmt.Sprint(prepare), "t")
				first, err := w.Write(tx, outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: key})
				if err != nil {
					return err
				}
				// A savepoint of gorm's own within the transaction.
				if err := tx.Transaction(func(tx *gorm.DB) error {
					_, err := w.Write(tx, outbox.Draft{Type: "t", Payload: []byte("p")})
					return errors.Join(errUndo, err)
				}); !errors.Is(err, errUndo) {
					r.Error(err)
				}
				if _, err := w.Write(tx, outbox.Draft{Type: "t", Payload: []byte("p"), IdempotencyKey: key}); !errors.Is(err, outbox.ErrDuplicate) {
					r.Errorf("a duplicate: %v", err)
				}
				written, err := w.WriteAll(tx, []outbox.Draft{{Type: "t", Payload: []byte("p")}, {Type: "t", Payload: []byte("p"), IdempotencyKey: key, Once: true}})
				if err != nil || len(written) != 2 || !written[1].Duplicate || written[1].ID != first {
					r.Errorf("%+v, %v", written, err)
				}
				return nil
			}); err != nil {
				r.Error(err)
			}
		}
		if got := r.counts(); got != [2]int64{2, 4} {
			r.Errorf("orders and messages: %v, want 2 and 4", got)
		}
	})
}

// TestNoTransaction: what would be committed by itself, or nowhere, is refused.
func TestNoTransaction(t *testing.T) {
	each(t, func(r *rig) {
		w := r.make().writer(outbox.Options{})
		d := outbox.Draft{Type: "t", Payload: []byte("p")}
		for _, db := range []*gorm.DB{r.db, r.db.Session(&gorm.Session{PrepareStmt: true})} {
			if _, err := w.Write(db, d); !errors.Is(err, outbox.ErrNoTransaction) {
				r.Errorf("without a transaction: %v", err)
			}
		}
		if _, err := w.Write(r.db.Session(&gorm.Session{DryRun: true}), d); !errors.Is(err, gorm.ErrDryRunModeUnsupported) {
			r.Errorf("dry run: %v", err)
		}
		tx := r.db.Begin()
		defer tx.Rollback()
		if _, err := w.Write(tx.Where("nonsense").First(&Order{}), d); err == nil {
			r.Error("a transaction that has failed is written in")
		}
	})
}

// TestTransactor: what the function returns is written, and its panic undoes all.
func TestTransactor(t *testing.T) {
	each(t, func(r *rig) {
		do := r.make().writer(outbox.Options{}).Transactor(r.db, nil)
		drafts := []outbox.Draft{{Type: "t", Payload: []byte("p")}, {Type: "t", Payload: []byte("p")}}
		written, err := do.Do(r.Context(), func(_ context.Context, tx *gorm.DB) ([]outbox.Draft, error) {
			return drafts, tx.Create(&Order{State: "paid"}).Error
		})
		if err != nil || len(written) != 2 {
			r.Errorf("%+v, %v", written, err)
		}
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					r.Errorf("recovered %v", v)
				}
			}()
			_, err := do.Do(r.Context(), func(_ context.Context, tx *gorm.DB) ([]outbox.Draft, error) {
				if err := tx.Create(&Order{State: "paid"}).Error; err != nil {
					r.Error(err)
				}
				panic("boom")
			})
			r.Errorf("the panic is gone: %v", err)
		}()
		if got := r.counts(); got != [2]int64{1, 2} {
			r.Errorf("orders and messages: %v, want 1 and 2", got)
		}
	})
}
