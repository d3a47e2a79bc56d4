package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/tailbox/tailbox/cmd/tailbox/cli"
)

func newVersion() *cli.Command {
	return &cli.Command{
		Name: "version", About: "prints version, commit and Go version", Example: "tailbox version",
		Run: func(_ context.Context, sh *cli.Shell, _ []string) error {
			_, err := fmt.Fprintln(sh.Out, versionLine())
			return err
		},
	}
}

func versionLine() string {
	v, c := buildVersion()
	return fmt.Sprintf("tailbox %s commit %s %s %s/%s", v, c, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion is what the linker was told, else what the Go tool knows.
func buildVersion() (v, c string) {
	v, c = version, commit
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" && c == "" {
				c = setting.Value
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	if c == "" {
		c = "unknown"
	}
	return v, c
}
