//go:build linux

// Command node-keeper contains the two processes that keep a real node of the sandbox alive. sandbox/node
// starts it.
//
//	node-keeper keep CONFIG     until standard input ends
//	node-keeper first CONFIG    started by keep
package main

import (
	"fmt"
	"os"

	"github.com/gpuscale/gpuscale/sandbox/node/keeper"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "node-keeper:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "keep":
			return keeper.Keep(args[1], os.Stdin, os.Stdout)
		case "first":
			return keeper.First(args[1])
		}
	}
	return fmt.Errorf("no such arguments: %q", args)
}
