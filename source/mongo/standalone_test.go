package mongo_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/outbox"
	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/source/mongo/setup"
	"github.com/tailbox/tailbox/source/mongo/store"
	"github.com/tailbox/tailbox/source/mongo/stream"
	"github.com/tailbox/tailbox/test/servers"
)

// A standalone server is refused with the fix, by everything.
func TestStandalone(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t, servers.WithMongoStandalone())
	cfg := conn.Config{Config: source.Config{Pipeline: "p", URL: server.URL(), Schema: "shop", Tables: []outbox.Table{mongotest.Table("debezium")}}}
	ctx := context.Background()
	_, initErr := setup.Init(ctx, cfg)
	_, openErr := store.Open(ctx, cfg)
	_, examineErr := stream.New(cfg).Examine(ctx, "", "")
	_, establishErr := stream.New(cfg).Establish(ctx)
	runErr := stream.New(cfg).Run(ctx, source.Start{From: "1:1"}, nil)
	for what, err := range map[string]error{"init": initErr, "open": openErr, "examine": examineErr, "establish": establishErr, "run": runErr} {
		if !errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "rs.initiate()") {
			t.Errorf("%s: got %v, want an error that stops and names rs.initiate()", what, err)
		}
	}
}
