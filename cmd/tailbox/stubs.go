package main

import (
	"context"
	"log/slog"

	"github.com/tailbox/tailbox/internal/admin"
	"github.com/tailbox/tailbox/source/postgres"
)

func newStatus() *command   { return &command{name: "status"} }
func newSinkList() *command { return &command{name: "list"} }
func observe(ctx context.Context, log *slog.Logger, pg postgres.Config, m *admin.Metrics) error {
	return nil
}
func checkDatabase(ctx context.Context, sh *shell, p *parts) []error { return nil }
