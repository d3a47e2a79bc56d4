package outboxcqrs_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxcqrs"
	"github.com/tailbox/tailbox/outbox/outboxmongo"
	"github.com/tailbox/tailbox/outbox/outboxsql"
	"github.com/tailbox/tailbox/test/servers"
)

func marshal() outboxcqrs.Marshaler[OrderPaid] { return outboxcqrs.JSON[OrderPaid](nil) }

// TestDeadlock: of two commands that block each other the victim is carried out again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	for _, kind := range servers.MySQLKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			my := servers.SharedMySQL(t, kind)
			name := my.NewDatabase(t)
			if err := my.Exec(t.Context(), name, "CREATE TABLE orders (id varchar(9) PRIMARY KEY, paid int NOT NULL)", "INSERT INTO orders VALUES ('1', 0), ('2', 0)",
				"CREATE TABLE outbox (id char(36) PRIMARY KEY, type varchar(50) NOT NULL, payload json NOT NULL)"); err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(my.URL(name))
			if err != nil {
				t.Fatal(err)
			}
			c := mysql.NewConfig()
			c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
			c.Passwd, _ = u.User.Password()
			db, err := sql.Open("mysql", c.FormatDSN())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			w, err := outboxsql.New(t.Context(), db, outbox.MySQL, outbox.Table{Name: "outbox", Columns: outbox.Columns{ID: "id", Type: "type", Payload: "payload"}}, outbox.Options{})
			if err != nil {
				t.Fatal(err)
			}
			testDeadlock(t, w.Transactor(db, nil))
			var paid, messages int
			if err := db.QueryRowContext(t.Context(), "SELECT SUM(paid), (SELECT COUNT(*) FROM outbox) FROM orders").Scan(&paid, &messages); err != nil || paid != 4 || messages != 2 {
				t.Errorf("paid %d, messages %d, %v; want 4 and 2", paid, messages, err)
			}
		})
	}
}

// testDeadlock has two commands change two rows, each in its own order, after both have changed their first.
func testDeadlock(t *testing.T, do *outboxsql.Transactor) {
	t.Helper()
	var both, wait sync.WaitGroup
	both.Add(2)
	var once [2]sync.Once
	ran := make(chan int, 20)
	h := outboxcqrs.Handle(do, marshal(), func(ctx context.Context, tx *sql.Tx, me int) ([]OrderPaid, error) {
		ran <- me
		rows := []string{"1", "2"}
		if _, err := tx.ExecContext(ctx, "UPDATE orders SET paid = paid + 1 WHERE id = ?", rows[me]); err != nil {
			return nil, err
		}
		once[me].Do(func() { both.Done(); both.Wait() })
		_, err := tx.ExecContext(ctx, "UPDATE orders SET paid = paid + 1 WHERE id = ?", rows[1-me])
		return []OrderPaid{{rows[me]}}, err
	}, outboxcqrs.Options{Attempts: 10})
	for me := range 2 {
		wait.Go(func() {
			if err := h(t.Context(), me); err != nil {
				t.Errorf("command %d: %v", me, err)
			}
		})
	}
	wait.Wait()
	if len(ran) < 3 {
		t.Errorf("commands ran %d times: there was no deadlock", len(ran))
	}
}

// TestMongo: a conflict of documents is carried out again.
func TestMongo(t *testing.T) {
	t.Parallel()
	server := servers.SharedMongo(t)
	client := server.Client(t)
	db := client.Database(server.NewDatabase(t))
	tab, err := outboxmongo.Table("debezium", "outbox")
	if err != nil {
		t.Fatal(err)
	}
	w, err := outboxmongo.New(t.Context(), db, tab, outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	orders := db.Collection("orders")
	if _, err := orders.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	add := bson.D{{Key: "$inc", Value: bson.D{{Key: "paid", Value: 1}}}}
	ran := 0
	m := outboxcqrs.JSON(func(e OrderPaid, d *outbox.Draft) { d.Topic, d.Key = "order", e.Order })
	h := outboxcqrs.Handle(w.Transactor(client, nil), m, func(ctx context.Context, _ *mongo.Session, order string) ([]OrderPaid, error) {
		if err := orders.FindOne(ctx, bson.D{}).Err(); err != nil {
			return nil, err
		}
		if ran++; ran == 1 { // another one, beside it
			if _, err := orders.UpdateByID(t.Context(), 1, add); err != nil {
				return nil, err
			}
		}
		_, err := orders.UpdateByID(ctx, 1, add)
		return []OrderPaid{{order}}, err
	}, outboxcqrs.Options{Attempts: 5})
	if err := h(t.Context(), "1"); err != nil || ran != 2 {
		t.Errorf("%v after %d runs, want 2", err, ran)
	}
	n, err := db.Collection("outbox").CountDocuments(t.Context(), bson.D{{Key: "type", Value: "OrderPaid"}})
	if err != nil || n != 1 {
		t.Errorf("messages: %d, %v", n, err)
	}
}
