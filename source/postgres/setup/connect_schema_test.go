package setup_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailbox/tailbox/source/postgres/pgtest"
	"github.com/tailbox/tailbox/source/postgres/setup"
	"github.com/tailbox/tailbox/test/servers"
)

func TestConnectSchemas(t *testing.T) {
	t.Parallel()
	pg := servers.Shared(t, "17")
	r := pgtest.NewRig(t, pg, `CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL, payload jsonb, raw bytea NOT NULL,
		n bigint, serial bigserial, small int2, ok boolean, kind text DEFAULT 'x', at timestamptz, made timestamptz DEFAULT now(),
		day timestamp, amount numeric)`, pgtest.Shape("debezium", "outbox"))
	got, err := setup.ConnectSchemas(context.Background(), r.Cfg.URL, "public.outbox")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"id":            `{"type":"string","optional":false,"name":"io.debezium.data.Uuid","version":1,"default":"00000000-0000-0000-0000-000000000000"}`,
		"aggregatetype": `{"type":"string","optional":false}`, "payload": `{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1}`,
		"raw": `{"type":"bytes","optional":false}`, "serial": `{"type":"int64","optional":false,"default":0}`, "n": `{"type":"int64","optional":true}`, "small": `{"type":"int16","optional":true}`, "ok": `{"type":"boolean","optional":true}`,
		"at": `{"type":"string","optional":true,"name":"io.debezium.time.ZonedTimestamp","version":1}`, "kind": "", "made": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
	if _, err := setup.ConnectSchemas(context.Background(), r.Cfg.URL, "public.none"); err == nil {
		t.Error("no error for a table that does not exist")
	}
}
