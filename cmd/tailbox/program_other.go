//go:build !linux

package main

import "context"

// forgetStart is for Linux.
func forgetStart(<-chan struct{}) func(context.Context) { return func(context.Context) {} }
