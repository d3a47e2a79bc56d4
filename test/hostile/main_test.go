package hostile

import (
	"fmt"
	"os"
	"testing"

	"github.com/tailbox/tailbox/test/e2e"
	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) {
	code := servers.Main(m)
	if err := e2e.RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
