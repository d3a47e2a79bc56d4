package main

import "context"

func checkDatabase(ctx context.Context, sh *shell, p *parts) []error { return nil }
