package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func newVersion() *command {
	return &command{
		name: "version", about: "prints version, commit and Go version", example: "tailbox version",
		run: func(_ context.Context, sh *shell, _ []string) error {
			v, c := buildVersion()
			_, err := fmt.Fprintf(sh.out, "tailbox %s commit %s %s %s/%s\n", v, c, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
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
