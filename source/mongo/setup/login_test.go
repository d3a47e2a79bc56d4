package setup

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/source"
	"github.com/tailbox/tailbox/source/mongo/mongotest"
	"github.com/tailbox/tailbox/test/servers"
)

// TestWrongPassword: the error names the fix, and is tried again: a password may be about to change everywhere.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := servers.Mongo(t, servers.WithMongoAuth())
	r := newRig(t, server, mongotest.Table("debezium"))
	r.Config.URL = server.URLOf("nobody", "wrong")
	_, err := Init(r.Ctx, r.Config)
	if err == nil || errors.Is(err, source.ErrStop) || !strings.Contains(err.Error(), "correct the user and password in source.url, and authSource") {
		t.Errorf("Init returned %v", err)
	}
}
