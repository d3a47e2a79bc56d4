//go:build !unix

package main

import "os"

// width is how many characters fit into a line of a terminal. Nothing tells it here, so that lines are as long as they are.
func width(*os.File) int { return 0 }
