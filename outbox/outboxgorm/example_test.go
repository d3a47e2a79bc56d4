package outboxgorm_test

import (
	"fmt"
	"os"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxgorm"
)

// payOrder marks an order as paid and writes the message OrderPaid, or does neither.
func payOrder(db *gorm.DB, w *outboxgorm.Writer, order int) error {
	return db.Transaction(func(tx *gorm.DB) error {
		if err := tx.Model(&Order{ID: order}).Update("state", "paid").Error; err != nil {
			return err
		}
		payload, err := outbox.JSON(map[string]int{"order": order})
		if err != nil {
			return err
		}
		_, err = w.Write(tx, outbox.Draft{Type: "OrderPaid", Topic: "orders", Group: fmt.Sprint("order:", order), Payload: payload})
		return err
	})
}

func Example() {
	db, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")))
	if err != nil {
		panic(err)
	}
	table, err := outbox.NewTable("tailbox", "outbox")
	if err != nil {
		panic(err)
	}
	w, err := outboxgorm.New(db, table, outbox.Options{})
	if err != nil {
		panic(err)
	}
	if err := payOrder(db, w, 42); err != nil {
		fmt.Println("the order is not paid:", err)
	}
	if pool, err := db.DB(); err == nil {
		_ = pool.Close()
	}
}

// TestExample runs it.
func TestExample(t *testing.T) {
	r := newRig(t, "postgres").make()
	for _, sql := range []string{"ALTER TABLE outbox ADD COLUMN topic text", "INSERT INTO orders VALUES (42, 'new')"} {
		if err := r.db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DATABASE_URL", r.url)
	Example()
	var got string
	if err := r.db.Raw("SELECT state || ' ' || type || ' ' || message_group FROM orders, outbox").Scan(&got).Error; err != nil || got != "paid OrderPaid order:42" {
		t.Errorf("got %q, %v", got, err)
	}
}
