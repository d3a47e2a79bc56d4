package setup

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/tailbox/tailbox/source/mongo/conn"
	"github.com/tailbox/tailbox/source/store/report"
)

// Settings reads the version of the server, and what it says of itself to every client.
func Settings(ctx context.Context, cfg conn.Config) (found []report.Setting, err error) {
	if cfg, err = cfg.Resolved(); err != nil {
		return nil, err
	}
	client, err := cfg.Connect()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Disconnect(ctx, client)) }()
	hello, err := conn.Greet(ctx, client)
	if err != nil {
		return nil, err
	}
	var build struct{ Version string }
	if err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	return []report.Setting{{Name: "version", Value: build.Version}, {Name: "setName", Value: hello.SetName}, {Name: "sharded", Value: strconv.FormatBool(hello.Sharded())},
		{Name: "maxWireVersion", Value: strconv.Itoa(hello.Wire)}, {Name: "logicalSessionTimeoutMinutes", Value: strconv.Itoa(hello.Sessions)}}, nil
}
