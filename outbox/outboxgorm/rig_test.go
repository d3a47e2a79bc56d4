package outboxgorm_test

import (
	"bytes"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/outbox/outboxgorm"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// A paper is a log that tests read.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.text.WriteString(strings.TrimSpace(strings.ReplaceAll(format, "\n", " ")) + " ")
	for _, a := range args {
		if s, ok := a.(string); ok {
			_, _ = p.text.WriteString(s + " ")
		}
	}
	_, _ = p.text.WriteString("\n")
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// An Order is a business row.
type Order struct {
	ID    int
	State string
}

// A rig is a database with an outbox table, by gorm.
type rig struct {
	*testing.T
	db    *gorm.DB
	log   *paper
	table outbox.Table
	// kind and url are those of the relay's configuration.
	kind, url string
}

func each(t *testing.T, f func(r *rig)) {
	t.Parallel()
	for _, kind := range append([]string{"postgres"}, servers.MySQLKinds()...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(newRig(t, kind))
		})
	}
}

func newRig(t *testing.T, kind string) *rig {
	t.Helper()
	r := &rig{T: t, log: &paper{}, kind: kind}
	var dialector gorm.Dialector
	if kind == "postgres" {
		pg := servers.Shared(t, "17")
		r.url = pg.URL(pg.NewDatabase(t))
		dialector = postgres.Open(r.url)
	} else {
		my := servers.SharedMySQL(t, kind)
		r.url = my.URL(my.NewDatabase(t))
		u, err := url.Parse(r.url)
		if err != nil {
			t.Fatal(err)
		}
		c := driver.NewConfig()
		c.Net, c.Addr, c.User, c.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
		c.Passwd, _ = u.User.Password()
		dialector = mysql.Open(c.FormatDSN())
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.New(r.log, logger.Config{LogLevel: logger.Info})})
	if err != nil {
		t.Fatal(err)
	}
	r.db = db.WithContext(t.Context())
	t.Cleanup(func() {
		if pool, err := db.DB(); err != nil || pool.Close() != nil {
			t.Errorf("close the pool: %v", err)
		}
	})
	if err := r.db.AutoMigrate(&Order{}); err != nil {
		t.Fatal(err)
	}
	if r.table, err = outbox.NewTable("tailbox", "outbox"); err != nil {
		t.Fatal(err)
	}
	return r
}

// make makes the outbox table as a migration of the application would.
func (r *rig) make() *rig {
	r.Helper()
	id, bytes := "uuid PRIMARY KEY DEFAULT gen_random_uuid()", "bytea"
	if r.kind != "postgres" {
		id, bytes = "char(36) PRIMARY KEY", "longblob"
	}
	err := r.db.Exec("CREATE TABLE outbox (id " + id + ", type varchar(50) NOT NULL, message_group varchar(255), payload " + bytes + " NOT NULL, " +
		"idempotency_key varchar(100) UNIQUE, status varchar(20) NOT NULL)").Error
	if err != nil {
		r.Fatal(err)
	}
	return r
}

func (r *rig) writer(o outbox.Options) *outboxgorm.Writer {
	r.Helper()
	w, err := outboxgorm.New(r.db, r.table, o)
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// counts are the numbers of orders and messages.
func (r *rig) counts() [2]int64 {
	r.Helper()
	var n [2]int64
	for i, table := range []string{"orders", "outbox"} {
		if err := r.db.Table(table).Count(&n[i]).Error; err != nil {
			r.Fatal(err)
		}
	}
	return n
}
