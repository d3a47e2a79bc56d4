package setup

import (
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
)

// Check warns of a connection to another machine that is not encrypted, or whose server is not verified.
func TestTransport(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mongodb://localhost/": "", "mongodb://127.0.0.1:27017/?replicaSet=rs0": "", "mongodb://db.example/?tls=true": "",
		"mongodb://localhost,db.example:27018/":           "source.url goes to the database at db.example without TLS",
		"mongodb://db.example/?tls=true&tlsInsecure=true": "source.url goes to the database at db.example by TLS, but nothing checks",
	} {
		c := &checker{cfg: conn.Config{Config: source.Config{URL: url}}}
		c.transport()
		if want == "" && len(c.Findings) > 0 || want != "" && (len(c.Findings) != 1 || !strings.HasPrefix(c.Findings[0].What, want)) {
			t.Errorf("%s: %+v, want %q", url, c.Findings, want)
		}
	}
}
