package server

import (
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url               string
		network, addr, db string
		user, password    string
		tls, preferred    bool
		timeout           time.Duration
	}{
		{url: "mysql://shop@db.example", network: "tcp", addr: "db.example:3306", user: "shop", tls: true, preferred: true},
		{url: "mysql://shop:p%40%3A%2F@127.0.0.1:3307/orders", network: "tcp", addr: "127.0.0.1:3307", db: "orders", user: "shop", password: "p@:/"},
		{url: "mariadb://shop@/orders?socket=/run/mysqld/mysqld.sock", network: "unix", addr: "/run/mysqld/mysqld.sock", db: "orders", user: "shop"},
		{url: "mysql://shop@[::1]:3306/orders?tls=skip-verify&connect-timeout=3s", network: "tcp", addr: "[::1]:3306", db: "orders", user: "shop", tls: true, timeout: 3 * time.Second},
		{url: "mysql://shop@db.example/orders?tls=false", network: "tcp", addr: "db.example:3306", db: "orders", user: "shop"},
		{url: "mysql://shop@127.0.0.1/orders?tls-server-name=db.example", network: "tcp", addr: "127.0.0.1:3306", db: "orders", user: "shop", tls: true},
	} {
		a, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("parse %s: %v", c.url, err)
			continue
		}
		if c.timeout == 0 {
			c.timeout = connectTimeout
		}
		if a.network != c.network || a.addr != c.addr || a.Database != c.db || a.user != c.user || a.password != c.password ||
			(a.tls != nil) != c.tls || a.preferred != c.preferred || a.timeout != c.timeout {
			t.Errorf("parse %s: got %+v", c.url, a)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://shop:secret@db/orders":                `its scheme is "postgres"`,
		"mysql://shop:sec%ret@db/orders":                  "want mysql://",
		"mysql://db/orders":                               "names no user",
		"mysql://shop:secret@db/orders?charset=latin1":    `unknown parameter "charset"`,
		"mysql://shop:secret@db/orders?tls=maybe":         `tls="maybe"`,
		"mysql://shop:secret@db/orders?connect-timeout=3": `"3" is no duration`,
		"mysql://shop:secret@db/?tls=false&tls-ca=/x":     "tls=false beside",
	} {
		_, err := ParseURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sec") {
			t.Errorf("parse %s: got %v, want an error with %q and no password", url, err, want)
		}
	}
}

func TestParseServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Version{
		"8.0.36":                             {version: [3]int{8, 0, 36}},
		"9.7.4-2":                            {version: [3]int{9, 7, 4}},
		"8.4.0-azure":                        {version: [3]int{8, 4, 0}},
		"10.11.18-MariaDB-0+deb12u1-log":     {MariaDB: true, version: [3]int{10, 11, 18}},
		"5.5.5-10.6.1-MariaDB-1:10.6.1+mari": {MariaDB: true, version: [3]int{10, 6, 1}},
	} {
		want.Text = text
		if got, err := parseServer(text); err != nil || got != want {
			t.Errorf("parse %s: got %+v, %v", text, got, err)
		}
	}
	if _, err := parseServer("vitess"); err == nil {
		t.Error("parse vitess: got no error")
	}
}

// Check warns of a session to another machine that is not encrypted, or whose server is not verified.
func TestTransport(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://u@localhost/d": "", "mysql://u@127.0.0.1/d?tls=false": "", "mysql://u@x/d?socket=/run/mysqld.sock": "", "mysql://u@db.example/d?tls=true": "",
		"mysql://u@db.example/d":                    "source.url goes to the database at db.example without TLS",
		"mysql://u@db.example/d?tls=false":          "source.url goes to the database at db.example without TLS",
		"mysql://u@10.0.0.1:3307/d?tls=skip-verify": "source.url goes to the database at 10.0.0.1 by TLS, but nothing checks",
	} {
		a, err := ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		f := a.Transport("source.url").Warn("tls=true")
		if want == "" && f != nil || want != "" && (f == nil || !strings.HasPrefix(f.What, want)) {
			t.Errorf("%s: %+v, want %q", url, f, want)
		}
	}
}
