package session_test

import (
	"os"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
