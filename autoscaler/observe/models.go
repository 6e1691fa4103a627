package observe

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// models caches the models of product names: every GPU is looked up in every reconcile, and there
// are few products. A nil models caches nothing.
type models struct {
	tables mig.Tables
	known  map[productName]productModel
}

// productName is a name and, if known, the GPU's memory in MiB.
type productName struct {
	name   string
	memory int
}

type productModel struct {
	gpu.Model
	ok bool
}

// of returns tables.Model(name, memory).
func (m *models) of(tables mig.Tables, name string, memory int) (gpu.Model, bool) {
	if m == nil {
		return tables.Model(name, memory)
	}
	if m.known == nil || !slices.Equal(m.tables, tables) {
		m.tables, m.known = tables, map[productName]productModel{}
	}
	key := productName{name, memory}
	found, ok := m.known[key]
	if !ok {
		found.Model, found.ok = tables.Model(name, memory)
		m.known[key] = found
	}
	return found.Model, found.ok
}
