package plan

import (
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// models are the GPU models of the snapshot with their MIG tables, and by them what capacity offers and
// what pods request, in the profiles of a model. What has been computed once is kept: it depends on no
// trial.
type models struct {
	tables     mig.Tables
	tableOf    map[string]*mig.Table // nil: the model has none
	seen       []gpu.Model           // of all GPUs
	requestIDs map[string]int        // numbers of the requests on each model
	answers    map[string]answer     // of pack.Target, by question
	additions  map[string][]mig.Placement
	requested  map[string][]mig.Count // by model, see requestedOf
}
