package scenario

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// readTables reads tables=("MODEL 7 8 81559 0 1g.10gb:0,1,2:1:7 …" …), each as a
// node publishes it.
func readTables(r *reader, s *plan.Snapshot) {
	var specs []mig.Spec
	if !r.items("tables", func(it item) error {
		if len(it) != 1 || it[0].isSet {
			return fmt.Errorf("a table is one quoted word")
		}
		spec, err := mig.ParseSpec(it[0].name)
		specs = append(specs, spec)
		return err
	}) {
		return
	}
	tables, err := mig.NewTables(specs...)
	if err != nil {
		r.fail("tables", "%v", err)
	}
	s.Tables = tables
}

func tablesText(tables mig.Tables) string {
	if len(tables) == 0 {
		return ""
	}
	lines := make([]string, len(tables))
	for i, t := range tables {
		lines[i] = t.Spec().String()
	}
	return " tables=" + listText(lines)
}
