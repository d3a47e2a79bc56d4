package setup

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/source/mysql/mysqltest"
	"github.com/tailbox/tailbox/test/servers"
)

func TestConnectSchemas(t *testing.T) {
	mysqltest.OnKinds(t, func(t *testing.T, kind string) {
		r := mysqltest.NewSourceRig(t, servers.SharedMySQL(t, kind), newSource)
		r.Exec("CREATE TABLE described (id char(36) NOT NULL PRIMARY KEY, kind varchar(20) DEFAULT 'x', `at` timestamp(3) NULL, made timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, " +
			"day datetime, amount decimal(9,2))")
		got, err := ConnectSchemas(r.Ctx, kind, r.Cfg.URL, r.DB+".described")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"id": `{"type":"string","optional":false}`, "kind": "", "at": `{"type":"string","optional":true,"name":"io.debezium.time.ZonedTimestamp","version":1}`, "made": ""}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("schemas (-want +got):\n%s", diff)
		}
	})
}
