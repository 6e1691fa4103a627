package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/internal/release/gobuild"
)

// program is a thing that is released, and how its image runs it.
type program struct {
	gobuild.Program
	short string // its name in -only
	user  string // of the image; empty where the pod decides
}

// nobody is the user of images that need no rights on a node, the same as in
// distroless's nonroot images.
const nobody = "65532:65532"

var programs = []program{
	{short: "exporter", Program: gobuild.Program{Name: "gpuscale-exporter", Package: "./exporter", Cgo: true}},
	{short: "adapter", Program: gobuild.Program{Name: "gpuscale-adapter", Package: "./adapter"}, user: nobody},
	{short: "autoscaler", Program: gobuild.Program{Name: "gpuscale-autoscaler", Package: "./autoscaler"}, user: nobody},
	// The agent is the autoscaler's program with NVML in it.
	{short: "agent", Program: gobuild.Program{Name: "gpuscale-agent", Package: "./autoscaler", Cgo: true}},
	{short: "report", Program: gobuild.Program{Name: "gpuscale-report", Package: "./report"}, user: nobody},
}

func choose(all []program, only string) ([]program, error) {
	if only == "" {
		return all, nil
	}
	var chosen []program
	for _, name := range strings.Split(only, ",") {
		i := slices.IndexFunc(all, func(p program) bool { return p.short == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: no such program", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
