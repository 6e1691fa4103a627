package mig_test

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Example shows which instances a repartition for a 3g.40gb destroys and
// creates on a GPU with a busy 1g and three idle instances.
func Example() {
	table, _ := mig.ForModel("NVIDIA-H100-80GB-HBM3")
	_, err := mig.ParseLayout(table, "1g.10gb@0 1g.10gb@4 1g.10gb@5 4g.40gb@0")
	fmt.Println(err)
	now, _ := mig.ParseLayout(table, "1g.10gb@0 1g.10gb@4 1g.10gb@5 2g.20gb@2")

	busy := mig.Layout{now[0]}
	wanted, _ := table.Exact("3g.40gb")
	target, ok := table.Arrange(busy, []mig.Count{{Profile: wanted, N: 1}})
	fmt.Println(table.Format(target), ok)

	steps, _ := mig.Diff(now, target, func(p mig.Placement) bool { return p == busy[0] })
	for _, s := range steps {
		fmt.Println(s)
	}
	// Output:
	// 4g@0:4: overlaps another instance
	// 1g.10gb@0 3g.40gb@4 true
	// destroy 2g@2:2
	// destroy 1g@4:1
	// destroy 1g@5:1
	// create 3g@4:4
}
