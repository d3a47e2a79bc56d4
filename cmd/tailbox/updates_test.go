package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tailbox/tailbox/internal/config"
	"github.com/tailbox/tailbox/outbox"
)

func TestLogUpdates(t *testing.T) {
	t.Parallel()
	level := slog.LevelError
	for name, c := range map[string]struct {
		source config.Source
		want   string
	}{
		"by default":             {config.Source{}, ""},
		"asked for":              {config.Source{OnUpdate: &level}, "level=ERROR"},
		"with updates of itself": {config.Source{OnUpdate: &level, Tables: []outbox.Table{{OnDelivered: outbox.Keep}, {OnDelivered: outbox.Mark}}}, ""},
		"with states of rows":    {config.Source{OnUpdate: &level, Tables: []outbox.Table{{OnDelivered: outbox.Delete, Columns: outbox.Columns{Status: "status"}}}}, ""},
		"with deletes alone":     {config.Source{OnUpdate: &level, Tables: []outbox.Table{{OnDelivered: outbox.Delete}}}, "level=ERROR"},
	} {
		var log bytes.Buffer
		counted := 0
		ignored := logUpdates(t.Context(), &c.source, slog.New(slog.NewTextHandler(&log, nil)),
			func(_ string, n int) { counted += n })
		ignored("delete", 1)
		ignored("update", 2)
		ignored("update", 3)
		if counted != 6 || strings.Count(log.String(), "\n") != strings.Count(c.want, "level") || !strings.Contains(log.String(), c.want) {
			t.Errorf("%s: counted %d, logged %q", name, counted, log.String())
		}
	}
}
