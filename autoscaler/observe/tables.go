package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// published caches the MIG tables that nodes publish: they rarely change and take time to build.
type published struct {
	from   []partition.Publication
	tables mig.Tables
	err    error
}

// of returns the tables of these nodes. The error names the nodes with an invalid table; the other
// tables are used.
func (p *published) of(nodes []corev1.Node) (mig.Tables, error) {
	from := partition.Publications(nodes)
	if !slices.Equal(from, p.from) {
		p.from = from
		p.tables, p.err = partition.TablesOf(from)
	}
	return p.tables, p.err
}
