package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

func TestMain(m *testing.M) {
	code := servers.Main(m)
	if err := RemoveBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}
