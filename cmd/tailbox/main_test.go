package main

import (
	"os"
	"testing"

	"github.com/tailbox/tailbox/test/servers"
)

// asProgram makes the test binary be the program itself, for tests that need a process.
const asProgram = "TAILBOX_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(servers.Main(m))
}
